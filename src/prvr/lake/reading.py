"""Search a lake: one version of its tables as a ``Snapshot``, and a bounded cache of the sections that were read."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.lake.rows import HEAD, VIDEO_COLUMNS, SectionLayout, read_video
from prvr.lake.tables import LakeError, Table, explained
from prvr.library import (
    FRAMES,
    TEXT,
    BlockRows,
    Filters,
    Ids,
    QueryProjection,
    SectionBlock,
    Snapshot,
    TrackSections,
    Video,
    absolute_path,
)

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
_SCATTERED, _FEW_VIDEOS = 4, 16  # blocks of the cache that hold some of the wanted videos; videos in one of them


class BlockCache:
    """Blocks of sections that were read last, up to a number of bytes. Any thread may use it."""

    def __init__(self, most: int | None = None):
        self.most = most if most is not None else int(os.environ.get(CACHE_MEGABYTES, _DEFAULT_MEGABYTES)) << 20
        self.bytes = 0
        self._blocks: OrderedDict[int, tuple[SectionBlock, list[Hashable], int]] = OrderedDict()  # by their id
        self._places: dict[Hashable, tuple[int, int]] = {}  # key of a video -> its block and first row
        self._lock = threading.Lock()

    def get(self, keys: Sequence[Hashable]) -> list[tuple[SectionBlock, int] | None]:
        """For each video its block and first row there, or None."""
        with self._lock:
            places = [self._places.get(key) for key in keys]
            for number in {place[0] for place in places if place is not None}:
                self._blocks.move_to_end(number)
            return [None if place is None else (self._blocks[place[0]][0], place[1]) for place in places]

    def put(self, block: SectionBlock, first_rows: Mapping[Hashable, int], *, replace: bool) -> None:
        """Keep a block. ``replace``: drop those that were used longest ago to make room, else keep it if it fits."""
        size = sum(array.numel() * array.element_size() for array in block.arrays.values())
        with self._lock:
            while replace and self._blocks and self.bytes + size > self.most:
                number, (_, keys, freed) = self._blocks.popitem(last=False)
                self.bytes -= freed
                for key in keys:
                    if self._places.get(key, (None,))[0] == number:
                        del self._places[key]
            if self.bytes + size <= self.most:
                self._blocks[id(block)] = (block, [*first_rows], size)
                self._places.update({key: (id(block), row) for key, row in first_rows.items()})
                self.bytes += size


class LakeSections(TrackSections):
    """The sections of a track. Their vectors are read when a search needs them."""

    def __init__(
        self,
        table: LanceDataset,
        track: str,
        videos: Ids,
        parts: Ids,
        projection: Tensor | None,
        cache: BlockCache,
        previous: LakeSections | None,
    ):
        """``videos`` and ``parts``: the numbers of all videos that can be searched, and the parts that they name."""
        self.table, self.track, self.projection, self.cache = table, track, projection, cache
        self.layout = SectionLayout.from_schema(table.schema)
        self.fusion_weight = float(self.layout.about["trace"]["fusion_weight"])
        with explained(table.uri):
            columns = table.scanner(["part", "section", "tokens"], with_row_id=True).to_table()
        found = {name: columns[name].to_numpy() for name in columns.column_names}
        order = np.argsort(parts)
        place = np.searchsorted(parts[order], found["part"]).clip(max=max(0, len(parts) - 1))
        live = np.flatnonzero(parts[order][place] == found["part"]) if len(parts) else np.zeros(0, np.int64)
        owners = videos[order][place[live]]
        live = live[np.lexsort((found["section"][live], owners))]
        self.positions: Ids = live  # (S,) places in the table
        self.owners = videos[order][place[live]]
        self.tokens = found["tokens"][live].astype(np.int64)
        self.row_ids: Ids = found["_rowid"][live].astype(np.int64)
        self.parts: Ids = found["part"][live][self.by_video.starts[:-1]] if len(live) else np.zeros(0, np.int64)  # (V,)
        if previous is not None and len(self) > _LARGE and abs(len(self) - len(previous)) < len(self) // 20:
            for name in ("understood", "background", "plain_background"):
                if name in vars(previous):
                    setattr(self, name, vars(previous)[name])

    def blocks(self, numbers: Ids | None = None) -> Iterator[BlockRows]:
        starts = self.by_video.starts
        chosen = np.arange(len(self)) if numbers is None else numbers
        columns = np.searchsorted(starts, chosen, side="right") - 1  # (n,) the place of each section's video
        wanted, inverse = np.unique(columns, return_inverse=True)
        kept = self.cache.get([(self.track, part) for part in self.parts[wanted].tolist()])
        groups: dict[int, tuple[SectionBlock, NDArray[np.int64]]] = {}
        for place, found in enumerate(kept):
            if found is not None:
                block, first = found
                groups.setdefault(id(block), (block, np.full(len(wanted), -1, np.int64)))[1][place] = first
        missing = np.array([found is None for found in kept], bool)
        for block, first_rows in groups.values():
            here = first_rows >= 0
            if len(groups) > _SCATTERED and here.sum() < _FEW_VIDEOS:
                missing |= here  # a block that holds few of them costs more to score than to read them again
            else:
                yield _rows_of(block, first_rows, inverse, chosen - starts[columns])
        for block, first_rows in self._read_ahead(wanted, np.flatnonzero(missing), replace=numbers is not None):
            yield _rows_of(block, first_rows, inverse, chosen - starts[columns])

    def _read_ahead(
        self, wanted: Ids, missing: Ids, *, replace: bool
    ) -> Iterator[tuple[SectionBlock, NDArray[np.int64]]]:
        """Read videos that are not in the cache, a block at a time; the next block is read while one is used."""
        if not len(missing):
            return
        tokens = self._video_tokens[wanted[missing]]
        groups = np.split(missing, np.flatnonzero(np.diff(tokens.cumsum() // _BLOCK_TOKENS)) + 1)

        def read(places: Ids) -> tuple[SectionBlock, NDArray[np.int64]]:
            starts = self.by_video.starts
            numbers = np.concatenate([np.arange(starts[column], starts[column + 1]) for column in wanted[places]])
            block = self.read(numbers)
            counts = starts[wanted[places] + 1] - starts[wanted[places]]
            first_rows = np.full(len(wanted), -1, np.int64)
            first_rows[places] = np.cumsum(counts) - counts
            keys: dict[Hashable, int] = {
                (self.track, int(self.parts[wanted[place]])): int(first_rows[place]) for place in places
            }
            self.cache.put(block, keys, replace=replace)
            return block, first_rows

        if len(groups) == 1:
            yield read(missing)
            return
        with ThreadPoolExecutor(1, "prvr-read") as reader:
            coming = reader.submit(read, groups[0])
            for group in groups[1:]:
                ready, coming = coming, reader.submit(read, group)
                yield ready.result()
            yield coming.result()

    def read(self, numbers: Ids) -> SectionBlock:
        """Read sections from the table. The rows of the block are in this order."""
        with explained(self.table.uri):
            values = self.table.take(self.positions[numbers], columns=["arrays"])["arrays"]
        return self.layout.block([value.as_buffer() for value in values], self.projection)

    @cached_property
    def _video_tokens(self) -> Ids:
        """(V,): the tokens of each video."""
        tokens: Ids = np.add.reduceat(self.tokens, self.by_video.starts[:-1])
        return tokens

    def background_scores(self, numbers: Ids) -> NDArray[np.float32]:
        shape = (-1, self.layout.sentences, 2)
        if 4 * 2 * self.layout.sentences * len(self) <= _BACKGROUND_BYTES:
            return self._all_background_scores.reshape(shape)[numbers]
        with explained(self.table.uri):
            found = self.table.take(self.positions[numbers], columns=["background"])["background"]
        return _matrix(found).reshape(shape)

    @cached_property
    def _all_background_scores(self) -> NDArray[np.float32]:
        with explained(self.table.uri):
            return _matrix(self.table.to_table(columns=["background"])["background"])[self.positions]


def _matrix(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """(n, m) from a column of lists with m numbers each."""
    width = column.type.list_size
    parts = [chunk.flatten().to_numpy().reshape(-1, width) for chunk in column.chunks]
    return np.concatenate([np.zeros((0, width), np.float32), *parts])


def _rows_of(block: SectionBlock, first_rows: Ids, videos: Ids, within: Ids) -> BlockRows:
    """The sections that lie in a block.

    Args:
        block: the block.
        first_rows: (v,) for each video its first row in the block, or −1.
        videos: (n,) the video of each section that was asked for.
        within: (n,) its place among the sections of its video.
    """
    here = np.flatnonzero(first_rows[videos] >= 0)
    return BlockRows(here, block, first_rows[videos[here]] + within[here])


class LakeVideos(Mapping[int, Video]):
    """The videos of one version that can be searched, in order of their numbers."""

    def __init__(self, rows: pa.Table):
        self.rows = rows.sort_by("id")
        self.numbers: Ids = self.rows["id"].to_numpy()
        self.parts: Ids = self.rows["part"].to_numpy()

    def __getitem__(self, number: int) -> Video:
        place = int(np.searchsorted(self.numbers, number))
        if place == len(self.numbers) or self.numbers[place] != number:
            raise KeyError(number)
        return read_video(self.rows.slice(place, 1).to_pylist()[0])

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class LakeSnapshot(Snapshot):
    """One version of the tables."""

    videos: LakeVideos
    tracks: Mapping[str, LakeSections]
    opened: tuple[LanceDataset, ...]  # the table of videos, then those of sections

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


def read_snapshot(
    tables: Mapping[str, Table],
    previous: Snapshot | None,
    projection: QueryProjection,
    cache: BlockCache,
) -> Snapshot:
    """Open the newest version. Returns ``previous`` itself if nothing has changed since."""
    last = previous if isinstance(previous, LakeSnapshot) else None
    with explained(tables["videos"].lake):
        if last is not None and all(each.latest_version == each.version for each in last.opened):
            return last
    for _ in range(_TRIES):
        videos = tables["videos"].open()  # before the sections: those of every video in it are there already
        if videos is None:
            raise LakeError(f"{tables['videos'].lake} has lost its table of videos: restore it from a copy")
        opened = {track: tables[track].open() for track in TRACKS}
        found = {track: table for track, table in opened.items() if table is not None}
        versions = (videos.version, *(table.version for table in found.values()))
        columns = [*VIDEO_COLUMNS, "part", *(f"{track}_sections" for track in TRACKS)]
        with explained(videos.uri):
            rows = LakeVideos(videos.to_table(columns=columns, filter=f"id != {HEAD} AND state = 'ok'"))
        sections = {
            track: LakeSections(
                table,
                track,
                rows.numbers,
                rows.parts,
                projection(track),
                cache,
                None if last is None else last.tracks.get(track),
            )
            for track, table in found.items()
        }
        complete = all(
            len(of_track) == int(np.sum(rows.rows[f"{track}_sections"].to_numpy()))
            for track, of_track in sections.items()
        )
        if complete or tables["videos"].open().version == versions[0]:  # type: ignore[union-attr]
            break  # if incomplete, then not because a video was replaced meanwhile: ``verify`` names it
    with_sections = {track: of_track for track, of_track in sections.items() if len(of_track)}
    return LakeSnapshot(versions, rows, with_sections, (videos, *found.values()))
