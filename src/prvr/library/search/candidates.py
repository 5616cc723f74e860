"""Candidates for approximate searches: an index names the videos that may answer, and only those are scored.

The index (a faiss inverted file over stored tokens) is opened here and built in ``candidate_build.py``. Candidates are
scored exactly, with TRACE. Videos that were added after the index was built are always candidates, and removed ones
never are. An old index therefore costs time or recall, but never shows a video that is not in the library.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.store.sections import Ids, MappedSections, MappedShard, TrackSections
from prvr.library.store.snapshot import Snapshot

INDEX_FOLDER = "candidates"
FORMAT = 1
FEWEST_TOKENS = 20_000  # with fewer indexed tokens, reading them all is as fast
SHARD_BITS = 40  # an indexed token's number is its shard's number, then its slot in the shard
_REFERENCE_VIDEOS = 64  # scored with every query, at most
_REFERENCE_TOKENS = 1 << 16  # in them, about
_FEWEST_REFERENCE = 40  # videos, however long they are

_REMEDY = "run `prvr library index` again, or search exactly"


class Candidates(Protocol):
    """What names candidates: an index beside the sections of a track."""

    @property
    def sections(self) -> TrackSections: ...

    @property
    def reference(self) -> Ids:
        """A fixed random sample of videos. They are scored with every query, to know how it scores in general."""

    def of(self, queries: Tensor, probes: int | None = None) -> list[Ids]:
        """For each query (Q, D) the videos that may answer it."""


@dataclass(frozen=True)
class IndexSettings:
    """How candidates are found."""

    every: int = 2
    """index one of this many neighbouring tokens; neighbours overlap in time"""
    neighbours: int = 2000
    """tokens to ask the index for; many tokens of a video are alike, so ask for far more than the videos you want"""
    videos: int = 200
    """videos to score exactly: the owners of the nearest tokens"""
    lists: int = 0
    """lists of the inverted file; 0: four times the square root of the number of tokens"""
    probes: int = 0
    """lists to look at; 0: as few as find 99 % of the exact best ten of the background sentences"""

    def __post_init__(self) -> None:
        if min(self.every, self.neighbours, self.videos) < 1 or min(self.lists, self.probes) < 0:
            raise LibraryError("every, neighbours and videos must be at least 1, lists and probes at least 0")


@dataclass(frozen=True)
class IndexRecord:
    """The description of an index: ``candidates/TRACK.json``."""

    file: str
    pages: dict[str, int]  # by shard number: how many of its pages are indexed
    tokens: int
    probes: int
    settings: IndexSettings = field(default_factory=IndexSettings)
    recall: float | None = None  # of the exact best ten, measured when it was built

    def to_json(self) -> str:
        fields = asdict(self)
        fields["stretches"] = fields.pop("tokens")  # the name in files of this format
        return json.dumps({**fields, "format": FORMAT}, indent=1)

    @staticmethod
    def from_json(text: str, library: Path) -> IndexRecord:
        fields = json.loads(text)
        if fields.pop("format") > FORMAT:
            raise NoCandidates(library, "has a candidate index made by a newer prvr", f"update prvr, or {_REMEDY}")
        settings = IndexSettings(**fields.pop("settings"))
        return IndexRecord(tokens=fields.pop("stretches"), settings=settings, **fields)


class CandidateIndex:
    """The index of one track, mapped into memory."""

    def __init__(self, record: IndexRecord, index: Any):
        self.record, self.index = record, index

    @staticmethod
    def open(library: Path, track: str) -> CandidateIndex | None:
        """Open the index of a track; None if none was built."""
        place = library / INDEX_FOLDER / f"{track}.json"
        try:
            record = IndexRecord.from_json(place.read_text("utf-8"), library)
            faiss = require_faiss()
            index = faiss.read_index(str(place.parent / record.file), faiss.IO_FLAG_MMAP)
        except FileNotFoundError:
            return None
        except RuntimeError:
            raise NoCandidates(library, f"has a damaged candidate index ({record.file})", _REMEDY) from None
        except (ValueError, TypeError, KeyError) as problem:
            raise NoCandidates(
                library, f"has a candidate index that cannot be used ({place.name}: {problem})", _REMEDY
            ) from None
        return CandidateIndex(record, index)

    def near(self, queries: Tensor, probes: int | None = None) -> NDArray[np.int64]:
        """Numbers of the tokens nearest to each query, (Q, D) → (Q, neighbours), best first, padded with −1."""
        faiss = require_faiss()
        units = np.array(queries.float().numpy(), np.float32, order="C")
        faiss.normalize_L2(units)
        parameters = faiss.SearchParametersIVF(nprobe=probes or self.record.probes)
        count = min(self.record.settings.neighbours, self.record.tokens)
        _, numbers = self.index.search(units, count, params=parameters)
        nearest: NDArray[np.int64] = numbers
        return nearest


class TrackCandidates:
    """An index beside the current sections of its track."""

    def __init__(self, index: CandidateIndex, sections: MappedSections):
        self.index, self.sections = index, sections

    def of(self, queries: Tensor, probes: int | None = None) -> list[Ids]:
        """For each query (Q, D) the videos that may answer it, and all videos that are not indexed yet."""
        return [np.union1d(self._owners(near[near >= 0]), self.unindexed) for near in self.index.near(queries, probes)]

    def _owners(self, tokens: NDArray[np.int64]) -> Ids:
        """The videos of the nearest tokens, as many as the settings ask for."""
        owners, places = np.unique(self.sections.owners[self._sections_of(tokens)], return_index=True)
        nearest: Ids = owners[np.argsort(places)][: self.index.record.settings.videos]
        return nearest

    def _sections_of(self, tokens: NDArray[np.int64]) -> Ids:
        """The section of each token, in order. Tokens of removed videos are left out."""
        numbers = np.full(len(tokens), -1, np.int64)
        for place, shard in enumerate(self.sections.shards):
            here = np.flatnonzero(tokens >> SHARD_BITS == shard.id)
            slots = tokens[here] & ((1 << SHARD_BITS) - 1)
            rows = np.searchsorted(_page_ends(shard), slots // shard.gallery.page, side="right")
            within = np.searchsorted(shard.rows, rows).clip(max=len(shard.rows) - 1)
            numbers[here] = np.where(shard.rows[within] == rows, self.sections.starts[place] + within, -1)
        return numbers[numbers >= 0]

    @cached_property
    def unindexed(self) -> Ids:
        """Videos that were added after the index was built."""
        missing = [np.zeros(0, np.int64)]
        for place, shard in enumerate(self.sections.shards):
            known = np.searchsorted(_page_ends(shard), self.index.record.pages.get(str(shard.id), 0), side="right")
            missing.append(self.sections.starts[place] + np.flatnonzero(shard.rows >= known))
        return np.unique(self.sections.owners[np.concatenate(missing)])

    @cached_property
    def reference(self) -> Ids:
        return reference_videos(self.sections)


def reference_videos(sections: TrackSections) -> Ids:
    """A fixed random sample of the videos of a track."""
    groups = sections.by_video
    tokens = np.add.reduceat(sections.tokens[groups.numbers], groups.starts[:-1])
    order = np.random.default_rng(0).permutation(len(groups.videos))[:_REFERENCE_VIDEOS]
    sample = tokens[order].cumsum() <= _REFERENCE_TOKENS
    sample[:_FEWEST_REFERENCE] = True
    return np.sort(groups.videos[order[sample]])


class OpenIndexes:
    """The candidate indexes of a library, kept open and opened again after a rebuild."""

    def __init__(self, library: Path):
        self.library = library
        self._lock = threading.Lock()
        self._opened: dict[str, tuple[tuple[int, int], CandidateIndex]] = {}
        self._current: tuple[Snapshot | None, dict[str, str], dict[str, TrackCandidates]] = (None, {}, {})

    def beside(self, snapshot: Snapshot) -> dict[str, TrackCandidates]:
        """The index of each track that has one.

        Raises:
            NoCandidates: if no index was built and the library is large enough to need one.
        """
        with self._lock:
            opened = {name: self._open(name) for name in snapshot.tracks}
            indexes = {name: index for name, index in opened.items() if index is not None}
            if not indexes and most_tokens(snapshot) >= FEWEST_TOKENS:
                raise NoCandidates(
                    self.library,
                    "has no candidate index",
                    "build one with `prvr library index`, or search exactly",
                )
            files = {name: index.record.file for name, index in indexes.items()}
            if self._current[0] is not snapshot or self._current[1] != files:
                candidates = {name: TrackCandidates(index, _mapped(snapshot, name)) for name, index in indexes.items()}
                self._current = (snapshot, files, candidates)
            return self._current[2]

    def _open(self, track: str) -> CandidateIndex | None:
        for last in (False, False, True):  # another process may be replacing the index right now
            stamp = self._stamp(track)
            if stamp is None:
                return None
            known = self._opened.get(track)
            if known is not None and known[0] == stamp:
                return known[1]
            try:
                index = CandidateIndex.open(self.library, track)
            except NoCandidates:
                if last or self._stamp(track) == stamp:
                    raise
                continue
            if index is not None:
                self._opened[track] = (stamp, index)
                return index
        return None

    def _stamp(self, track: str) -> tuple[int, int] | None:
        """Changes when the index is rebuilt; None if there is none."""
        try:
            record = (self.library / INDEX_FOLDER / f"{track}.json").stat()
        except FileNotFoundError:
            return None
        return record.st_mtime_ns, record.st_ino


def require_faiss() -> Any:
    """Import faiss, or say how to install it."""
    try:
        import faiss
    except ImportError:
        raise NoCandidates(
            None, "approximate search needs faiss", 'pip install "prvr[candidates]", or search exactly'
        ) from None
    return faiss


def _mapped(snapshot: Snapshot, track: str) -> MappedSections:
    sections = snapshot.tracks[track]
    assert isinstance(sections, MappedSections)
    return sections


def most_tokens(snapshot: Snapshot) -> int:
    """Tokens of the largest track."""
    return max((int(sections.tokens.sum()) for sections in snapshot.tracks.values()), default=0)


def _page_ends(shard: MappedShard) -> Ids:
    """The page at which each row of a shard ends."""
    ends: Ids = shard.gallery.first_page[1:].numpy()
    return ends
