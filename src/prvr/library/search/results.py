"""Last step of a search: explained entries become hits, with a message for the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from prvr.library.ingest.tracks import TEXT
from prvr.library.search.confidence import CONFIDENT
from prvr.library.search.explain import Explained, ExplainedPage, MomentEvidence
from prvr.library.search.moments import FoundMoment
from prvr.library.search.rank import Ranking
from prvr.library.search.request import SearchRequest
from prvr.library.search.words import TextMatch
from prvr.library.store.catalogue import Video
from prvr.library.store.snapshot import Snapshot

SCORES_NOTE = "scores can be compared within this search only"

ReadLines = Callable[[int, float, float], Sequence[str]]  # video, start, end -> what is said there


@dataclass(frozen=True)
class Hit:
    """A moment of a video. Grouped by video, it is the video's best moment, and ``moments`` holds all of them."""

    video: Video
    start: float  # seconds
    end: float
    score: float  # comparable within this search only
    confidence: float | None  # share of background sentences that find nothing as good; None if unknown
    evidence: MomentEvidence | None  # None if the query was found by its words, and no encoder understands it
    moments: tuple[FoundMoment, ...]
    track: str  # frames or text: where the evidence comes from; words if there is none
    ranks: dict[str, int]  # the video's place in each track's own ranking and among the words, from 1
    line: str | None = None  # what is said there, for a moment of the subtitles
    matched: TextMatch | None = None  # where the words of the query were found

    def to_dict(self, *, evidence: bool = True) -> dict[str, Any]:
        """For JSON."""
        fields = {
            "path": str(self.video.path),
            "video": self.video.id,
            "start": round(self.start, 3),
            "end": round(self.end, 3),
            "score": round(self.score, 6),
            "confidence": None if self.confidence is None else round(self.confidence, 4),
            "duration": self.video.duration,
            "tags": list(self.video.tags),
            "track": self.track,
            "ranks": self.ranks,
            "line": self.line,
            "matched": None if self.matched is None else self.matched.to_dict(),
            "moments": [{"start": round(each.start, 3), "end": round(each.end, 3)} for each in self.moments],
        }
        curves = None if self.evidence is None else self.evidence.to_dict()
        return {**fields, "evidence": curves} if evidence else fields


@dataclass(frozen=True)
class SearchResult(Sequence[Hit]):
    """Hits, best first, and what to know about them."""

    query: str
    hits: tuple[Hit, ...]
    confident: bool  # whether the best of all stands out from background sentences
    message: str  # "" or a sentence for the reader
    total: int | None  # videos that were searched
    next_offset: int | None  # where the next page begins; None at the end
    seconds: float = 0.0  # that the search took

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def to_dict(self, *, evidence: bool = True) -> dict[str, Any]:
        """For JSON."""
        return {
            "query": self.query,
            "confident": self.confident,
            "message": self.message,
            "note": SCORES_NOTE,
            "videos_searched": self.total,
            "next_offset": self.next_offset,
            "seconds": round(self.seconds, 4),
            "hits": [hit.to_dict(evidence=evidence) for hit in self.hits],
        }


def empty_result(request: SearchRequest, message: str) -> SearchResult:
    """A search that found nothing, and why."""
    return SearchResult(request.text, (), False, message, 0, None)


def not_understood(request: SearchRequest) -> str:
    """The message for a query that no track can use."""
    if isinstance(request.query, str):
        return "The encoder understands nothing of this query. Try other words."
    return "The library's encoder or model cannot read this picture. Search with words instead."


def result_of(ranking: Ranking, page: ExplainedPage, snapshot: Snapshot, lines: ReadLines) -> SearchResult:
    """Turn a ranking and its explained page into what a person reads."""
    request = ranking.request
    if ranking.total == 0:
        return empty_result(request, "No video in the library passes the filters.")
    hits = tuple(_hit(entry, snapshot, lines) for entry in page.entries)
    return SearchResult(
        query=request.text,
        hits=hits,
        confident=ranking.confidence is not None and ranking.confidence >= CONFIDENT,
        message=_message(request, ranking, any_hits=bool(hits)),
        total=ranking.total if ranking.tracks else _videos_searched(request, snapshot),
        next_offset=request.page_end if page.more else None,
    )


def _videos_searched(request: SearchRequest, snapshot: Snapshot) -> int:
    return len(snapshot.choose(request.filters) if request.filters.any else snapshot.videos)


def _hit(entry: Explained, snapshot: Snapshot, lines: ReadLines) -> Hit:
    best, said = entry.moments[0], entry.match
    line = said.text if said is not None and said.start == best.start else None
    if line is None and entry.track == TEXT and entry.evidence is not None:
        start, end = entry.evidence.spans[best.peak]
        line = " ".join(lines(entry.video, float(start), float(end))) or None
    return Hit(
        video=snapshot.videos[entry.video],
        start=best.start,
        end=best.end,
        score=entry.score,
        confidence=entry.confidence,
        evidence=entry.evidence,
        moments=entry.moments,
        track=entry.track,
        ranks=entry.places,
        line=line,
        matched=entry.match,
    )


def _message(request: SearchRequest, ranking: Ranking, *, any_hits: bool) -> str:
    top, count = ranking.confidence, len(ranking.words)
    if request.offset:
        return "" if any_hits else f"There are no results after the first {request.offset}."
    if not any_hits:
        return f"Nothing reaches the requested confidence of {request.min_confidence:g}."
    holding = f"{count} video{'s hold' if count > 1 else ' holds'} the words of the query"
    if not ranking.tracks:
        return f"{holding}. The pictures were not searched: the encoder understands nothing of the query."
    if count and (top is None or top < CONFIDENT):
        return f"{holding}. No confident match in the pictures: nothing stands out there."
    if top is None:
        return "Confidence is unknown: the encoder understands too few of the background sentences."
    return "" if top >= CONFIDENT else "No confident match: nothing stands out. The nearest moments are shown."
