"""What is known about a library's answers before it is searched, from its encoder and from the model's calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prvr.library.ingest.tracks import Track
from prvr.media import Understanding
from prvr.scoring import Calibration
from prvr.trace import Peaked, Verdict, VerdictScale


def _every_word(text: str) -> None:
    return None


@dataclass(frozen=True)
class Knowledge:
    """How far the answers of the pictures' track can be trusted."""

    calibrations: Mapping[bool, Calibration] = field(default_factory=dict)  # with TRACE (True), and without it
    verdicts: VerdictScale | None = None
    understand: Callable[[str], Understanding | None] = _every_word
    compares: bool = True  # whether its background sentences are of the kind that people can ask it

    def verdict(self, evidence: Peaked) -> Verdict | None:
        """Whether the rest of a video supports its best moment; None where that says nothing."""
        return None if self.verdicts is None else self.verdicts.verdict(evidence.support_lift)

    @staticmethod
    def of(track: Track, *, own_sentences: bool) -> Knowledge:
        """``own_sentences``: whether an encoder with few words has background sentences made of those words."""
        embedding, known = track.embedding, track.embedding.calibration
        compares = own_sentences or track.encoder.usual_sentences(1) is None
        if known is None:
            return Knowledge(understand=embedding.understanding, compares=compares)
        calibrations = {False: known.base, True: known.trace or known.base}
        return Knowledge(
            {traced: found for traced, found in calibrations.items() if found is not None},
            known.verdicts,
            embedding.understanding,
            compares,
        )
