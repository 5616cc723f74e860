"""Search a lake: one version of its tables as a ``Snapshot``, and a bounded cache of the sections that were read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.lake.rows import HEAD, VIDEO_COLUMNS, SectionLayout, checksum_of, read_video
from prvr.lake.tables import DamagedTable, LakeError, Table, explained
from prvr.library import (
    FRAMES,
    TEXT,
    BlockRows,
    DamagedVectors,
    Filters,
    Ids,
    LibraryRecord,
    QueryProjection,
    SectionBlock,
    Snapshot,
    TrackSections,
    Video,
    absolute_path,
    other_copies,
)
from prvr.media import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

TRACKS = (FRAMES, TEXT)
CACHE_MEGABYTES = "PRVR_LAKE_CACHE"  # environment variable: memory for sections that were read
_DEFAULT_MEGABYTES = 2048
_BLOCK_TOKENS = 1 << 16  # read together
_BACKGROUND_BYTES = 1 << 28  # of background scores that are kept in memory
_LARGE = 1 << 16  # sections; above, the background is computed again only when the library has changed by a twentieth
_TRIES = 5


class ValueCache:
    """The values of sections that were read last, up to a number of bytes. Any thread may use it."""

    def __init__(self, most: int | None = None):
        try:
            from cachetools import LRUCache
        except ImportError as problem:
            raise MissingExtra("cachetools, which lakes need,", "scale", problem) from None
        self.values: LRUCache[Hashable, bytes] = LRUCache(_cache_bytes() if most is None else most, getsizeof=len)
        self.lock = threading.Lock()

    def get(self, keys: Sequence[Hashable], read: Callable[[list[int]], list[bytes]]) -> list[bytes]:
        """The value of each key. ``read`` gets the places of keys that are not here, and returns their values."""
        with self.lock:
            found = [self.values.get(key) for key in keys]
        missing = [place for place, value in enumerate(found) if value is None]
        for place, value in zip(missing, read(missing) if missing else [], strict=True):
            found[place] = value
            with self.lock, suppress(ValueError):  # a value that is larger than the whole cache
                self.values[keys[place]] = value
        return [value for value in found if value is not None]


def _cache_bytes() -> int:
    text = os.environ.get(CACHE_MEGABYTES, str(_DEFAULT_MEGABYTES))
    try:
        return int(float(text) * (1 << 20))
    except (ValueError, OverflowError):
        raise LakeError(f"{CACHE_MEGABYTES} is a number of megabytes, not {text!r}") from None


@contextmanager
def described(place: str) -> Iterator[None]:
    """A description that does not fit its sections is damaged. New tables have a checksum of it, older ones none."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
        raise DamagedTable(f"the description of {place} is damaged ({problem}): restore it from a copy") from problem


class LakeVideos(Mapping[int, Video]):
    """The videos of one version that can be searched, in order of their numbers."""

    def __init__(self, rows: pa.Table):
        self.rows = rows.sort_by("id")
        self.numbers: Ids = self.rows["id"].to_numpy()
        self.parts: Ids = self.rows["part"].to_numpy()

    def naming(self, parts: Ids) -> Ids:
        """The video that names each part, (n,) → (n,); −1 where none does."""
        if not len(self):
            return np.full(len(parts), -1)
        order = np.argsort(self.parts)
        near = order[np.searchsorted(self.parts, parts, sorter=order).clip(max=len(self) - 1)]
        return np.where(self.parts[near] == parts, self.numbers[near], -1)

    def sections(self, track: str) -> int:
        """How many sections all of them have."""
        return int(self.rows[f"{track}_sections"].to_numpy().sum())

    def __getitem__(self, number: int) -> Video:
        place = int(np.searchsorted(self.numbers, number))
        if place == len(self.numbers) or self.numbers[place] != number:
            raise KeyError(number)
        return read_video(self.rows.slice(place, 1).to_pylist()[0])

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


class LakeSections(TrackSections):
    """The sections of a track. Their vectors are read when a search needs them."""

    def __init__(
        self,
        table: LanceDataset,
        track: str,
        videos: LakeVideos,
        projection: NDArray[np.float32] | None,
        cache: ValueCache,
        *,
        damaged: bool = False,
    ):
        """``damaged``: leave out files that cannot be read, instead of raising an error."""
        self.table, self.track, self.projection, self.cache = table, track, projection, cache
        self.layout = SectionLayout.from_schema(table.schema)
        with described(table.uri):
            self.fusion_weight = float(self.layout.about["trace"]["fusion_weight"])
        rows, _ = scan_sections(table, ["part", "section", "tokens", "checksum"], damaged=damaged)
        owners = videos.naming(rows["part"])
        order = np.lexsort((rows["section"], owners))
        self.positions: Ids = order[owners[order] >= 0]  # (S,) places in the table
        self.owners = owners[self.positions]
        self.tokens = rows["tokens"][self.positions].astype(np.int64)
        with np.errstate(invalid="ignore"):  # of damaged rows
            self.checksums: Ids = rows["checksum"][self.positions].astype(np.int64)
        self.row_ids: Ids = rows["_rowid"][self.positions].astype(np.int64)
        self.keys: Ids = np.stack([rows["part"], rows["section"]], 1)[self.positions]  # (S, 2)

    def keep_background(self, previous: LakeSections) -> None:
        """Take over what background sentences score, if the library is large and has hardly changed since."""
        if len(self) > _LARGE and abs(len(self) - len(previous)) < len(self) // 20:
            for name in ("understood", "background", "plain_background"):
                if name in vars(previous):
                    setattr(self, name, vars(previous)[name])
            self.keep_scores_with_everybody(previous)

    def blocks(self, numbers: Ids | None = None) -> Iterator[BlockRows]:
        chosen = np.arange(len(self)) if numbers is None else numbers
        cuts = np.flatnonzero(np.diff(self.tokens[chosen].cumsum() // _BLOCK_TOKENS)) + 1
        for places in np.split(np.arange(len(chosen)), cuts):
            if len(places):
                yield BlockRows(places, self.read(chosen[places]), np.arange(len(places)))

    def read(self, numbers: Ids) -> SectionBlock:
        """Sections as a block whose rows are in this order."""

        def from_table(places: list[int]) -> list[bytes]:
            some = numbers[places]
            found = self.take(some, ["arrays", "background"])
            values: list[bytes] = [value or b"" for value in found["arrays"].to_pylist()]
            with described(self.table.uri):
                scores = self._of_sentences(list_matrix(found["background"]))
            sums = np.array([*map(checksum_of, scores, values)], np.int64)
            if (wrong := sums != self.checksums[some]).any():
                raise DamagedVectors(self.owners[some[wrong]].tolist())
            return values

        keys = [(self.track, *key) for key in self.keys[numbers].tolist()]
        values = self.cache.get(keys, from_table)
        with described(self.table.uri):
            block = self.layout.block(values, self.projection)
            _ = block.numpy_gallery
        return block

    def without(self, videos: Iterable[int]) -> LakeSections | None:
        kept = ~np.isin(self.owners, [*videos])
        rest = object.__new__(LakeSections)
        for name in ("table", "track", "projection", "cache", "layout", "fusion_weight"):
            setattr(rest, name, getattr(self, name))
        for name in ("positions", "owners", "tokens", "checksums", "row_ids", "keys"):
            setattr(rest, name, getattr(self, name)[kept])
        return rest if kept.any() else None

    def take(self, numbers: Ids, columns: Sequence[str]) -> pa.Table:
        """Columns of sections in the table."""
        with explained(self.table.uri):
            return self.table.take(self.positions[numbers], columns=[*columns])

    def background_scores(self, numbers: Ids) -> NDArray[np.float32]:
        if 4 * 2 * self.layout.sentences * len(self) <= _BACKGROUND_BYTES:
            return self._of_sentences(self._all_background_scores)[numbers]
        return self._of_sentences(list_matrix(self.take(numbers, ["background"])["background"]))

    def _of_sentences(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 2 B) → (n, B, 2)."""
        return scores.reshape(-1, self.layout.sentences, 2)

    @cached_property
    def _all_background_scores(self) -> NDArray[np.float32]:
        with explained(self.table.uri):
            return list_matrix(self.table.to_table(columns=["background"])["background"])[self.positions]


def scan_sections(
    table: LanceDataset, columns: Sequence[str], *, damaged: bool
) -> tuple[dict[str, NDArray[Any]], list[int]]:
    """Read columns of all rows, and their row ids.

    Returns:
        By name (rows,), and the fragments that cannot be read. With ``damaged`` all values of their rows are −1;
        without, they are an error.
    """

    def scan(source: Any) -> dict[str, NDArray[Any]]:
        with explained(table.uri):
            found = source.scanner(columns=[*columns], with_row_id=True).to_table()
        return {name: found[name].to_numpy() for name in found.column_names}

    try:
        return scan(table), []
    except DamagedTable:
        if not damaged:
            raise
    parts, unreadable = [], []
    for fragment in table.get_fragments():
        try:
            parts.append(scan(fragment))
        except DamagedTable:
            unreadable.append(fragment.fragment_id)
            parts.append({name: np.full(fragment.count_rows(), -1) for name in (*columns, "_rowid")})
    return {name: np.concatenate([part[name] for part in parts]) for name in (*columns, "_rowid")}, unreadable


def list_matrix(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """(n, m) from a column of lists with m numbers each."""
    width = column.type.list_size
    parts = [chunk.flatten().to_numpy().reshape(-1, width) for chunk in column.chunks]
    return np.concatenate([np.zeros((0, width), np.float32), *parts])


@dataclass(frozen=True)
class LakeSnapshot(Snapshot):
    """One version of the tables."""

    videos: LakeVideos
    tracks: Mapping[str, LakeSections]
    opened: tuple[LanceDataset, ...] = ()  # the table of videos, then those of sections

    @property
    def complete(self) -> bool:
        """Whether all sections of all videos are there."""
        return all(self.videos.sections(track) == len(self.tracks.get(track, ())) for track in TRACKS)

    @cached_property
    def copies(self) -> Mapping[int, tuple[int, ...]]:
        import pyarrow.compute as pc

        counts = pc.value_counts(self.videos.rows["digest"])
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        rows = self.videos.rows.filter(pc.is_in(self.videos.rows["digest"], value_set=several))
        return other_copies(zip(rows["digest"].to_pylist(), rows["id"].to_pylist(), strict=True))

    def choose(self, filters: Filters) -> Ids:
        table = self.opened[0]
        with explained(table.uri):
            found = table.to_table(columns=["id"], filter=f"state = 'ok' AND {condition_of(filters)}")
        return np.sort(found["id"].to_numpy())


def condition_of(filters: Filters) -> str:
    """Filters as an SQL condition on the table of videos."""
    conditions = [f"array_has(tags, {quoted(tag)})" for tag in filters.tags]
    if filters.folder is not None:
        folder = str(absolute_path(filters.folder)).rstrip("/")
        conditions.append(f"(path = {quoted(folder)} OR starts_with(path, {quoted(folder + '/')}))")
    after, before = filters.dates
    for name, sign, value in (
        ("mtime / 1e9", ">=", after),
        ("mtime / 1e9", "<", before),
        ("duration", ">=", filters.min_duration),
        ("duration", "<=", filters.max_duration),
    ):
        if value is not None:
            conditions.append(f"{name} {sign} {value!r}")
    return " AND ".join(conditions) or "true"


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def in_background(work: Callable[[], LakeSnapshot]) -> Future[LakeSnapshot]:
    """Do something in a thread that does not keep the process from ending."""
    future: Future[LakeSnapshot] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as problem:  # raised by ``result``
            future.set_exception(problem)

    threading.Thread(target=run, name="prvr-look", daemon=True).start()
    return future


def read_snapshot(
    tables: Mapping[str, Table],
    previous: Snapshot | None,
    projection: QueryProjection,
    cache: ValueCache,
    record: LibraryRecord,
    *,
    damaged: bool = False,
) -> LakeSnapshot:
    """Open the newest version. Returns ``previous`` itself if nothing has changed since.

    ``damaged``: leave out what cannot be read, instead of raising an error.
    """
    last = previous if isinstance(previous, LakeSnapshot) else None
    with explained(tables["videos"].lake):
        if last is not None and all(each.latest_version == each.version for each in last.opened):
            return last
        for _ in range(_TRIES):
            found = _read_version(tables, projection, cache, record, damaged)
            if found.complete or tables["videos"].require().version == found.opened[0].version:
                break  # if incomplete, then not because a video was replaced meanwhile: ``verify`` names it
    for track, sections in found.tracks.items():
        if last is not None and track in last.tracks:
            sections.keep_background(last.tracks[track])
    return found


def _read_version(
    tables: Mapping[str, Table], projection: QueryProjection, cache: ValueCache, record: LibraryRecord, damaged: bool
) -> LakeSnapshot:
    """Open all tables and read whose sections there are."""
    table = tables["videos"].require()  # before the sections: those of every video in it are there already
    opened = {track: tables[track].open() for track in TRACKS}
    columns = [*VIDEO_COLUMNS, "part", *(f"{track}_sections" for track in TRACKS)]
    videos = LakeVideos(table.to_table(columns=columns, filter=f"id != {HEAD} AND state = 'ok'"))
    found = {track: of_track for track, of_track in opened.items() if of_track is not None}
    for track in TRACKS:
        if track not in found and videos.sections(track) and not damaged:
            raise tables[track].lost()
    tracks = {
        track: LakeSections(of_track, track, videos, projection(track), cache, damaged=damaged)
        for track, of_track in found.items()
    }
    versions = tuple(each.version for each in (table, *found.values()))
    with_sections = {track: sections for track, sections in tracks.items() if len(sections)}
    return LakeSnapshot(versions, videos, with_sections, record, opened=(table, *found.values()))
