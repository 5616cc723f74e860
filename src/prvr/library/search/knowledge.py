"""What is known about a library's answers before it is searched, from its encoder and from the model's calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prvr.library.ingest.choice import PLAIN_LIMITS, usual_encoder
from prvr.library.ingest.frozen import FrozenEmbedding
from prvr.library.ingest.tracks import Track
from prvr.media import Understanding
from prvr.scoring import Calibration
from prvr.trace import Peaked, Verdict, VerdictScale

_HUB_WEIGHT = 0.25  # chosen on rendered films; docs/search.md has what it gains


def _every_word(text: str) -> None:
    return None


@dataclass(frozen=True)
class Knowledge:
    """How far the answers of the pictures' track can be trusted."""

    calibrations: Mapping[bool, Calibration] = field(default_factory=dict)  # with TRACE (True), and without it
    verdicts: VerdictScale | None = None
    understand: Callable[[str], Understanding | None] = _every_word
    advice: str = "Try other words."  # for a query of which nothing is understood
    hub_weight: float = 0.0  # how much of what a video scores with everybody is taken off its score
    vary: Callable[[str], Sequence[str]] | None = None  # sentences of the same kind, for an encoder with few words

    def verdict(self, evidence: Peaked) -> Verdict | None:
        """Whether the rest of a video supports its best moment; None where that says nothing."""
        return None if self.verdicts is None else self.verdicts.verdict(evidence.support_lift)

    @staticmethod
    def of(track: Track) -> Knowledge:
        embedding, known = track.embedding, track.embedding.calibration
        limited = embedding.understanding("") is not None
        advice = (
            f"The encoder `plain` {PLAIN_LIMITS}: try “a red square moves left”, or index the videos with an "
            f"image–text encoder (`prvr library reindex --encoder {usual_encoder().name}`)."
        )
        untrained = Knowledge(
            understand=embedding.understanding,
            advice=advice if limited and isinstance(embedding, FrozenEmbedding) else "Try other words.",
            hub_weight=_HUB_WEIGHT if isinstance(embedding, FrozenEmbedding) else 0.0,
            vary=track.encoder.variations if limited else None,
        )
        if known is None:
            return untrained
        calibrations = {False: known.base, True: known.trace or known.base}
        by_trace = {traced: found for traced, found in calibrations.items() if found is not None}
        return replace(untrained, calibrations=by_trace, verdicts=known.verdicts)
