"""How one video answers a query, without ranking the others."""

from __future__ import annotations

from dataclasses import dataclass

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.explain import EvidenceRequest, MomentEvidence, evidence_in_videos, moments_of
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.moments import FoundMoment, MomentOptions
from prvr.library.search.pipeline import EncodeQueries, ReadWords
from prvr.library.search.query import add_moments
from prvr.library.search.request import MomentQuery, QueryInput
from prvr.library.search.score import SectionScorer
from prvr.library.store.snapshot import Snapshot
from prvr.trace import Verdict, why_this_one


@dataclass(frozen=True)
class VideoExplanation:
    """The evidence of a query in one video, the moments cut from it, and what the rest of the video says to them."""

    track: str
    evidence: MomentEvidence
    moments: tuple[FoundMoment, ...]
    verdict: Verdict | None = None  # None where that says nothing
    traced: bool = True  # whether TRACE took part
    asked: str = "What you describe"  # the query, as a sentence about it begins

    @property
    def why(self) -> str:
        """Why the best moment was found, in words."""
        return why_this_one(self.evidence, self.evidence.spans, self.verdict, self.asked, traced=self.traced)


def explain_video(
    query: QueryInput,
    video: int,
    snapshot: Snapshot,
    *,
    encode: EncodeQueries,
    words_of: ReadWords,
    knowledge: Knowledge,
    scorer: SectionScorer,
    track: str | None,
    trace: bool,
    options: MomentOptions,
) -> VideoExplanation:
    """Explain how one video answers a query.

    Args:
        query: a sentence, a picture or a moment.
        video: its number.
        snapshot: the library that holds it.
        encode, words_of, knowledge, scorer: as for ``run_search``.
        track, trace, options: see ``Library.explain``.
    """
    name = _track_of(video, track, snapshot)
    (vector,) = add_moments(encode(name, [query]), [query], name, snapshot)
    if not bool(vector.any()):
        raise LibraryError("The encoder understands nothing of this query. Try other words.")
    sentence, sections = query if isinstance(query, str) else None, snapshot.tracks[name]
    said = words_of([sentence]).get(sentence) if sentence is not None and name == FRAMES else None
    weight = sections.fusion_weight if trace else 0.0
    request = EvidenceRequest(vector, sections.by_video.of_video(video), weight, said=said)
    (evidence,) = evidence_in_videos(sections, [request], scorer)
    moments = tuple(moments_of(evidence, snapshot.videos[video].duration, options, trace=trace))
    if sentence is None:
        asked = "The moment" if isinstance(query, MomentQuery) else "The picture"
        return VideoExplanation(name, evidence, moments, traced=trace, asked=asked)
    understood = knowledge.understand(sentence)
    ignored = understood is not None and bool(understood.ignored)
    verdict = None if name != FRAMES or ignored else knowledge.verdict(evidence)
    return VideoExplanation(name, evidence, moments, verdict, traced=trace)


def _track_of(video: int, track: str | None, snapshot: Snapshot) -> str:
    """The track that explains a video: the one that was asked for, or the pictures if it has any."""
    if video not in snapshot.videos:
        raise LibraryError("there is no such video in the library: search again, it may have been removed")
    holding = [name for name, sections in snapshot.tracks.items() if sections.by_video.of_video(video)]
    name = track if track is not None else (FRAMES if FRAMES in holding else holding[0])
    if name not in holding:
        raise LibraryError(f"this video has no track {name!r}: it has {' and '.join(holding)}")
    return name
