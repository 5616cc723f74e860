"""Why one video answers a query as it does, without ranking the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.evidence import Asked, MomentEvidence
from prvr.library.search.moments import MomentOptions, Stretch, find_stretches
from prvr.library.search.pair_evidence import evidence_of

if TYPE_CHECKING:
    from prvr.library.library import Library


@dataclass(frozen=True)
class Explanation:
    """Curves of one video, and the moments that each way of selecting picks from them."""

    track: str
    evidence: MomentEvidence
    moments: tuple[Stretch, ...]


def explain_video(
    library: Library,
    query: str,
    video: int,
    *,
    track: str | None = None,
    trace: bool = True,
    moments: MomentOptions | None = None,
) -> Explanation:
    """Evidence of a sentence in a video; ``track``: frames or text, by default the first that holds the video."""
    snapshot = library.snapshot()
    if video not in snapshot.videos:
        raise LibraryError("there is no such video in the library: search again, it may have been removed")
    holding = [name for name, view in snapshot.tracks.items() if (view.owners == video).any()]
    name = track if track is not None else (FRAMES if FRAMES in holding else holding[0])
    if name not in holding:
        raise LibraryError(f"this video has no track {name!r}: it has {' and '.join(holding)}")
    vector = library.encode(name, [query])[0]
    if not bool(vector.any()):
        raise LibraryError("the encoder understands nothing of this: use other words")
    view = snapshot.tracks[name]
    sections = tuple((view.owners == video).nonzero()[0].tolist())
    (evidence,) = evidence_of(view, [Asked(vector, sections, view.fusion_weight if trace else 0.0)])
    curve = evidence.routed if trace else evidence.direct
    found = find_stretches(curve, evidence.spans, snapshot.videos[video].duration, moments or MomentOptions())
    return Explanation(name, evidence, tuple(found))
