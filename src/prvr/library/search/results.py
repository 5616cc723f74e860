"""What a search returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from prvr.library.search.evidence import MomentEvidence
from prvr.library.search.moments import Stretch
from prvr.library.store.catalogue import Video

SCORES_NOTE = "scores can be compared within this search only"


@dataclass(frozen=True)
class Hit:
    """A moment of a video. Grouped by video, it is the video's best one, and ``moments`` holds all of them."""

    video: Video
    start: float  # seconds
    end: float
    score: float  # within this search only
    confidence: float | None  # 1 − tail probability against background sentences; None where nothing is known
    evidence: MomentEvidence
    moments: tuple[Stretch, ...]
    track: str  # frames or text: where the moment was found
    ranks: dict[str, int]  # place of the video in each track's own ranking
    line: str | None = None  # what is said there, for a moment of the text track

    def to_dict(self, *, evidence: bool = True) -> dict[str, Any]:
        """For JSON."""
        found = {
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
            "moments": [{"start": round(each.start, 3), "end": round(each.end, 3)} for each in self.moments],
        }
        return {**found, "evidence": self.evidence.to_dict()} if evidence else found


@dataclass(frozen=True)
class Missing:
    """What a search could not look at: parts of a library that nobody answered for."""

    shards: tuple[int, ...]  # their numbers, from 0
    videos: int  # in them
    share: float  # of all videos of the library


@dataclass(frozen=True)
class SearchResult(Sequence[Hit]):
    """Hits, best first, and what to know about them."""

    query: str
    hits: tuple[Hit, ...]
    confident: bool  # whether the best of all stands out from background sentences
    message: str  # "" or a sentence for the reader
    total: int | None  # videos that were searched
    next_offset: int | None  # where the next page begins; None at the end
    seconds: float
    missing: Missing | None = None  # None: the whole library was searched

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
            "partial": self.missing is not None,
            "missing": None if self.missing is None else asdict(self.missing),
            "hits": [hit.to_dict(evidence=evidence) for hit in self.hits],
        }
