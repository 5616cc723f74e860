"""Last step of a search: explained entries become hits, with a message for the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

from prvr.library.ingest.tracks import FRAMES, TEXT
from prvr.library.search.confidence import Presence
from prvr.library.search.explain import Explained, ExplainedPage, MomentEvidence
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.moments import FoundMoment
from prvr.library.search.rank import Ranking
from prvr.library.search.request import MomentQuery, SearchRequest
from prvr.library.search.words import TextMatch
from prvr.library.store.catalogue import Video
from prvr.library.store.snapshot import Snapshot
from prvr.media import Understanding, VideoFile
from prvr.trace import Verdict

SCORES_NOTE = "scores can be compared within this search only"

ReadLines = Callable[[int, float, float], Sequence[str]]  # video, start, end -> what is said there


@dataclass(frozen=True)
class Hit:
    """A moment of a video. Grouped by video, it is the video's best moment, and ``moments`` holds all of them."""

    video: Video
    start: float  # seconds
    end: float
    score: float  # comparable within this search only
    confidence: float | None  # probability that this is right; None if the library's model is not calibrated
    evidence: MomentEvidence | None  # None if the query was found by its words, and no encoder understands it
    moments: tuple[FoundMoment, ...]
    track: str  # frames or text: where the evidence comes from; words if there is none
    ranks: dict[str, int]  # the video's place in each track's own ranking and among the words, from 1
    line: str | None = None  # what is said there, for a moment of the subtitles
    matched: TextMatch | None = None  # where the words of the query were found
    verdict: Verdict | None = None  # whether the rest of the video supports it; None where that says nothing
    also_at: tuple[VideoFile, ...] = ()  # other files with the same video: links, copies, re-encodes

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
            "verdict": self.verdict,
            "also_at": [str(path) for path in self.also_at],
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
    presence: Presence  # whether what was asked for is in the library at all
    message: str  # "" or a sentence for the reader
    total: int | None  # videos that were searched
    next_offset: int | None  # where the next page begins; None at the end
    understood: Understanding | None = None  # which words were used; None: all of them
    seconds: float = 0.0  # that the search took

    @property
    def confident(self) -> bool:
        """Whether the best hit can be relied on."""
        return self.presence.confident

    def with_note(self, note: str) -> SearchResult:
        """The same with another sentence for the reader."""
        return replace(self, message=f"{self.message} {note}".strip()) if note else self

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
            "presence": self.presence.to_dict(),
            "confident": self.confident,
            "understood": None if self.understood is None else asdict(self.understood),
            "message": self.message,
            "note": SCORES_NOTE,
            "videos_searched": self.total,
            "next_offset": self.next_offset,
            "seconds": round(self.seconds, 4),
            "hits": [hit.to_dict(evidence=evidence) for hit in self.hits],
        }


def empty_result(request: SearchRequest, message: str, understood: Understanding | None = None) -> SearchResult:
    """A search that found nothing, and why."""
    return SearchResult(request.text, (), Presence(), message, 0, None, understood)


def not_understood(request: SearchRequest, knowledge: Knowledge) -> SearchResult:
    """The result of a query that no track can use."""
    if request.sentence is None:
        return empty_result(
            request, "The library's encoder or model cannot read this picture. Search with words instead."
        )
    understood = knowledge.understand(request.sentence)
    return empty_result(request, f"The encoder understands nothing of this query. {knowledge.advice}", understood)


def result_of(
    ranking: Ranking, page: ExplainedPage, snapshot: Snapshot, knowledge: Knowledge, lines: ReadLines
) -> SearchResult:
    """Turn a ranking and its explained page into what a person reads."""
    request = ranking.request
    understood = None if request.sentence is None else knowledge.understand(request.sentence)
    if ranking.total == 0:
        other = " other" if isinstance(request.query, MomentQuery) else ""
        passes = "passes the filters" if request.filters.any else "can be searched"
        return empty_result(request, f"No{other} video in the library {passes}.", understood)
    ignored = understood is not None and bool(understood.ignored)
    known = None if ignored or request.sentence is None else knowledge
    hits = tuple(_hit(entry, snapshot, known, lines) for entry in page.entries)
    presence = ranking.presence
    if request.sentence is None:  # what is known is about sentences: pictures score higher with pictures
        presence = Presence()
    elif ignored:
        presence = _with_ignored_words(presence)
    return SearchResult(
        query=request.text,
        hits=hits,
        presence=presence,
        message=_message(request, ranking, presence, any_hits=bool(hits), ignored=ignored),
        total=ranking.total if ranking.tracks else _videos_searched(request, snapshot),
        next_offset=request.page_end if page.more else None,
        understood=understood,
    )


def _with_ignored_words(presence: Presence) -> Presence:
    """What can be said if words were ignored: a probability would be that of another sentence."""
    return Presence("maybe" if presence.word == "stands out" else presence.word)


def _videos_searched(request: SearchRequest, snapshot: Snapshot) -> int:
    return len(snapshot.choose(request.filters) if request.filters.any else snapshot.videos)


def _hit(entry: Explained, snapshot: Snapshot, knowledge: Knowledge | None, lines: ReadLines) -> Hit:
    """``knowledge``: None if nothing is known about the answers: words were ignored, or no sentence was asked."""
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
        confidence=None if knowledge is None else entry.confidence,
        evidence=entry.evidence,
        moments=entry.moments,
        track=entry.track,
        ranks=entry.places,
        line=line,
        matched=entry.match,
        verdict=_verdict(entry, knowledge),
        also_at=tuple(snapshot.videos[number].path for number in entry.also),
    )


def _verdict(entry: Explained, knowledge: Knowledge | None) -> Verdict | None:
    if knowledge is None or entry.evidence is None or entry.track != FRAMES:
        return None
    return knowledge.verdict(entry.evidence)


def _message(request: SearchRequest, ranking: Ranking, presence: Presence, *, any_hits: bool, ignored: bool) -> str:
    count = len(ranking.words)
    if request.offset:
        return "" if any_hits else f"There are no results after the first {request.offset}."
    if not any_hits:
        return f"No hit is right with a probability of {request.min_confidence:g} or more."
    holding = f"{count} video{'s hold' if count > 1 else ' holds'} the words of the query."
    if not ranking.tracks:
        return f"{holding} The pictures were not searched: the encoder understands nothing of the query."
    about_pictures = _about_pictures(presence, ignored=ignored)
    return f"{holding} {about_pictures}".strip() if count else about_pictures


def _about_pictures(presence: Presence, *, ignored: bool) -> str:
    if ignored:
        return "Words were ignored, so the pictures answer another sentence than yours."
    if presence.probability is not None:
        if presence.probability >= 0.5:
            return f"In this library with a probability of {presence.percent}."
        return f"Probably not in this library ({presence.percent} that it is). The nearest moments are shown."
    words = {
        "stands out": "The first one stands out.",
        "maybe": "Maybe: the first one may be it.",
        "nothing stands out": "Nothing stands out. The nearest moments are shown.",
    }
    return words[presence.word] if presence.word is not None else ""
