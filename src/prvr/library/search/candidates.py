"""Candidates for approximate searches: an index names the videos that may answer, and only those are scored.

The index of a library in a folder is a Lance table, ``candidates/TRACK-….lance``, with a row for each section: its
place in the folder's arrays, and its stretches. ``candidates/TRACK.json`` names the table that is in use. The index is
opened here and built in ``candidate_build.py``. Candidates are scored exactly, with TRACE. Videos that were added
after the index was built are always candidates, and removed ones never are. An old index therefore costs time or
recall, but never shows a video that is not in the library.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.search.stretches import (
    STRETCH_TOKENS,
    first_videos,
    is_lance_error,
    nearest_rows,
    require_lance,
    rows_to_ask,
)
from prvr.library.store.background import Floats
from prvr.library.store.blocks import Ids
from prvr.library.store.sections import ShardSections, TrackSections
from prvr.library.store.snapshot import Snapshot
from prvr.media import MissingExtra

if TYPE_CHECKING:
    from lance import LanceDataset

INDEX_FOLDER = "candidates"
FORMAT = 2  # 1 was an index of faiss
FEWEST_TOKENS = 20_000  # with fewer, reading them all is as fast
ROW = "row"  # the column with a section's place: the number of its shard, then its row in the shard
SHARD_BITS = 40
_LIST_TOKENS = 12_000  # in a list, about; Lance joins lists that are much smaller when rows are added to an index
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

    def of(self, queries: Floats, probes: int | None = None) -> list[Ids]:
        """For each query (Q, D) the videos that may answer it."""


@dataclass(frozen=True)
class IndexSettings:
    """How candidates are found."""

    videos: int = 200
    """videos to score exactly: those with the nearest stretches of tokens"""
    lists: int = 0
    """lists of the index; 0: one for every 12,000 tokens"""
    probes: int = 0
    """lists to look at; 0: as few as find 99 % of the exact best ten of the background sentences"""

    def __post_init__(self) -> None:
        if self.videos < 1 or min(self.lists, self.probes) < 0:
            raise LibraryError("videos must be at least 1, lists and probes at least 0")

    def lists_for(self, tokens: int) -> int:
        """How many lists an index of so many tokens has."""
        return max(1, min(self.lists or tokens // _LIST_TOKENS, tokens // STRETCH_TOKENS))


@dataclass(frozen=True)
class IndexRecord:
    """The description of an index: ``candidates/TRACK.json``."""

    table: str  # the folder with the table
    rows: dict[str, int]  # by shard number: how many of its rows the index knows
    sections: int  # that are indexed
    probes: int
    settings: IndexSettings = field(default_factory=IndexSettings)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @staticmethod
    def read(library: Path, track: str) -> IndexRecord | None:
        """The record of a track's index; None if none was built."""
        place = library / INDEX_FOLDER / f"{track}.json"
        try:
            fields = json.loads(place.read_text("utf-8"))
            made_with = fields.pop("format")
            if made_with > FORMAT:
                raise NoCandidates(library, "has a candidate index made by a newer prvr", f"update prvr, or {_REMEDY}")
            if made_with < FORMAT:
                raise NoCandidates(library, "has a candidate index made by an older prvr", _REMEDY)
            return IndexRecord(settings=IndexSettings(**fields.pop("settings")), **fields)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as problem:
            raise NoCandidates(
                library, f"has a candidate index that cannot be used ({place.name}: {problem})", _REMEDY
            ) from None


class CandidateIndex:
    """The index of one track. If another process replaces it, its table is deleted, and the new one is used."""

    def __init__(self, library: Path, track: str, record: IndexRecord, table: LanceDataset):
        self.library, self.track, self.record, self.table = library, track, record, table

    @staticmethod
    def open(library: Path, track: str) -> CandidateIndex | None:
        """Open the index of a track; None if none was built."""
        record = IndexRecord.read(library, track)
        while record is not None:
            lance = lance_for_candidates()
            try:
                with _damage_named(library, record):
                    table = lance.dataset(library / INDEX_FOLDER / record.table)
                return CandidateIndex(library, track, record, table)
            except NoCandidates:
                tried, record = record, IndexRecord.read(library, track)
                if record == tried:
                    raise
        return None

    def near(self, query: Floats, count: int, probes: int | None = None) -> Ids:
        """The places of the sections that are nearest to a query (D,), best first."""
        try:
            with _damage_named(self.library, self.record):
                return nearest_rows(self.table, query, count, probes or self.record.probes, ROW)
        except NoCandidates:
            current = CandidateIndex.open(self.library, self.track)
            if current is None or current.record == self.record:
                raise
            return current.near(query, count)


@contextmanager
def _damage_named(library: Path, record: IndexRecord) -> Iterator[None]:
    try:
        yield
    except BaseException as problem:
        if not is_lance_error(problem):
            raise
        raise NoCandidates(library, f"has a damaged candidate index ({record.table})", _REMEDY) from problem


def lance_for_candidates() -> Any:
    """Import Lance, or say how to install it."""
    try:
        return require_lance("candidates")
    except MissingExtra:
        remedy = 'pip install "prvr[candidates]", or search exactly'
        raise NoCandidates(None, "approximate search needs Lance", remedy) from None


class TrackCandidates:
    """An index beside the current sections of its track."""

    def __init__(self, index: CandidateIndex, sections: ShardSections):
        self.index, self.sections = index, sections

    def of(self, queries: Floats, probes: int | None = None) -> list[Ids]:
        """For each query (Q, D) the videos that may answer it, and all videos that are not indexed yet."""
        near = (self._sections_of(self.index.near(query, self._rows_to_ask, probes)) for query in queries)
        videos = self.index.record.settings.videos
        return [np.union1d(first_videos(self.sections.owners[found], videos), self.unindexed) for found in near]

    @cached_property
    def _rows_to_ask(self) -> int:
        record = self.index.record
        return rows_to_ask(record.settings.videos, record.sections, len(np.unique(self.sections.owners[self._known])))

    def _sections_of(self, rows: Ids) -> Ids:
        """The section at each place, in order. Rows of removed videos are left out."""
        numbers = np.full(len(rows), -1, np.int64)
        for place, shard in enumerate(self.sections.shards):
            here = np.flatnonzero(rows >> SHARD_BITS == shard.id)
            of_shard = rows[here] & ((1 << SHARD_BITS) - 1)
            within = np.searchsorted(shard.rows, of_shard).clip(max=len(shard.rows) - 1)
            numbers[here] = np.where(shard.rows[within] == of_shard, self.sections.starts[place] + within, -1)
        return numbers[numbers >= 0]

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """(S,): the sections that are indexed."""
        rows = [self.index.record.rows.get(str(shard.id), 0) for shard in self.sections.shards]
        known: NDArray[np.bool_] = self.sections.row < np.array(rows)[self.sections.shard]
        return known

    @cached_property
    def unindexed(self) -> Ids:
        """Videos that were added after the index was built."""
        return np.unique(self.sections.owners[~self._known])

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
            tables = {name: index.record.table for name, index in indexes.items()}
            if self._current[0] is not snapshot or self._current[1] != tables:
                candidates = {
                    name: TrackCandidates(index, _in_shards(snapshot, name)) for name, index in indexes.items()
                }
                self._current = (snapshot, tables, candidates)
            return self._current[2]

    def _open(self, track: str) -> CandidateIndex | None:
        stamp = self._stamp(track)
        if stamp is None:
            return None
        known = self._opened.get(track)
        if known is not None and known[0] == stamp:
            return known[1]
        index = CandidateIndex.open(self.library, track)
        if index is not None:
            self._opened[track] = (stamp, index)
        return index

    def _stamp(self, track: str) -> tuple[int, int] | None:
        """Changes when the index is rebuilt; None if there is none."""
        try:
            record = (self.library / INDEX_FOLDER / f"{track}.json").stat()
        except FileNotFoundError:
            return None
        return record.st_mtime_ns, record.st_ino


def _in_shards(snapshot: Snapshot, track: str) -> ShardSections:
    sections = snapshot.tracks[track]
    assert isinstance(sections, ShardSections)
    return sections


def most_tokens(snapshot: Snapshot) -> int:
    """Tokens of the largest track."""
    return max((int(sections.tokens.sum()) for sections in snapshot.tracks.values()), default=0)
