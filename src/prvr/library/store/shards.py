"""A shard that is searched: its sections are read from files, a block at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import Shard, ShardMissing, short_message
from prvr.library.store.blocks import BlockRows, Ids, KeptFrames, SectionBlock
from prvr.library.store.buffers import BUFFERS
from prvr.library.store.rows import (
    PAGED_ARRAYS,
    READ_APART,
    SHARDS_FOLDER,
    WITNESS_FACTS,
    WITNESS_FRAMES,
    SectionRow,
    pages_of_rows,
)
from prvr.library.store.shard_files import BlockKey, ShardFiles, UnreadableShard
from prvr.scoring import array_bytes

_SMALL_BYTES, _SMALL_ROWS = 1 << 24, 1 << 11  # of a shard that is read, and its checksums compared, when it is opened
_BLOCK_BYTES = 1 << 26  # of sections that are read together


@dataclass(frozen=True, eq=False)
class StoredShard:
    """One shard of arrays in files. Rows of removed videos are still in the arrays, but not in ``rows``."""

    shard: Shard  # its complete rows, as the catalogue describes them
    pages: NDArray[np.int32]  # (R,) of each row
    files: ShardFiles
    query_projection: NDArray[np.float32] | None  # TRACE's, (D, D)
    rows: Ids  # the rows of videos that are in the library

    @staticmethod
    def open(
        folder: Path,
        shard: Shard,
        rows: Sequence[SectionRow],
        projection: NDArray[np.float32] | None,
        before: ShardFiles | None = None,
    ) -> StoredShard:
        """Open the files of a shard. Of files that are cut short, the rows that are complete.

        Args:
            folder: the library's.
            shard: what the catalogue says of it.
            rows: its sections.
            projection: TRACE's for queries.
            before: files of this shard that are open already, with what is kept of them.

        Raises:
            ShardMissing: a file is gone.
            LibraryError: nothing is complete, or the catalogue's sections do not fit into the shard.
        """
        pages = pages_of_rows(shard.id, shard.rows, shard.pages, rows)
        for name, about in shard.about["arrays"].items():
            if math.prod(about["shape"]) * np.dtype(about["dtype"]).itemsize != int(about["item"]):
                raise ValueError(f"the catalogue describes {name} wrongly")
        try:
            names = [*shard.about["arrays"]]
            usable = before is not None and [*before.handles] == names and before.is_current()
            files = (
                before if before is not None and usable else ShardFiles(folder / SHARDS_FOLDER / str(shard.id), names)
            )
        except FileNotFoundError as problem:
            raise ShardMissing(str(problem.filename)) from None
        whole = _complete_part(files, shard, pages)
        found = StoredShard(whole, pages[: whole.rows], files, projection, np.arange(whole.rows))
        _ = found.take(found.rows[:0], whole=True).numpy_gallery  # fails if it is described wrongly
        return found

    def __len__(self) -> int:
        return self.shard.rows

    @property
    def id(self) -> int:
        return self.shard.id

    @property
    def about(self) -> dict[str, Any]:
        return self.shard.about["gallery"]

    @property
    def page_shape(self) -> tuple[int, int]:
        """Tokens of a page, and their width."""
        page, width = self.shard.about["arrays"]["local.values"]["shape"]
        return page, width

    @cached_property
    def first_page(self) -> Ids:
        """(R + 1,): where the pages of each row begin, and the count of all pages."""
        return np.append(0, np.cumsum(self.pages, dtype=np.int64))

    @cached_property
    def row_bytes(self) -> Ids:
        """(R,): bytes of each row, in all arrays."""
        return self._bytes_in(self.shard.about["arrays"])

    @cached_property
    def scored_bytes(self) -> Ids:
        """(R,): bytes of each row, in the arrays that a block holds."""
        return self._bytes_in(self._scored)

    @property
    def _scored(self) -> list[str]:
        return [name for name in self.shard.about["arrays"] if name not in READ_APART]

    def _bytes_in(self, names: Iterable[str]) -> Ids:
        items = {name: int(self.shard.about["arrays"][name]["item"]) for name in names}
        paged = sum(size for name, size in items.items() if name in PAGED_ARRAYS)
        return self.pages.astype(np.int64) * paged + (sum(items.values()) - paged)

    @cached_property
    def edges(self) -> Ids:
        """(blocks + 1,): the first row of each block, and the count of all rows. Rows that are added change no edge."""
        group = (np.cumsum(self.scored_bytes) - self.scored_bytes) // _BLOCK_BYTES
        return np.concatenate([[0], np.flatnonzero(np.diff(group)) + 1, [len(self)]])

    def is_whole(self) -> bool:
        """Whether all files are still there and long enough."""
        try:
            return all(
                self.files.path(name).stat().st_size >= self.shard.bytes(name) for name in self.shard.about["arrays"]
            )
        except OSError:
            return False

    def holding(self, rows: Ids) -> StoredShard:
        """The shard with these rows only (ascending). What comes after the last of them is not read any more."""
        count = int(rows[-1]) + 1 if len(rows) else 0
        end = replace(self.shard, rows=count, pages=int(self.first_page[count]))
        return replace(self, shard=end, pages=self.pages[:count], rows=rows)

    def read_if_small(self) -> SectionBlock | None:
        """Read the shard now if it is small, and keep it."""
        if not 0 < len(self) <= _SMALL_ROWS or int(self.row_bytes.sum()) > _SMALL_BYTES:
            return None
        block = self.files.kept.get(self._key(0))
        if block is None:
            block = self.files.keep(self._key(0), self.take(np.arange(len(self)), whole=True), at_once=True)
        return block

    def blocks(self, places: Ids, rows: Ids) -> Iterator[BlockRows]:
        """These rows, and the places that they have among what was asked for. Of a block only few rows are read alone.

        Raises:
            UnreadableShard: a file has become too short.
        """
        of_block = np.searchsorted(self.edges, rows, "right") - 1
        alone = np.zeros(len(rows), bool)
        for number in np.unique(of_block).tolist():
            here = of_block == number
            block = self.files.kept.get(self._key(number))
            if block is None and 2 * here.sum() < self.edges[number + 1] - self.edges[number]:
                alone |= here
            else:
                yield BlockRows(places[here], block or self._block(number), rows[here] - self.edges[number])
        few = np.flatnonzero(alone)
        cuts = np.flatnonzero(np.diff(self.scored_bytes[rows[few]].cumsum() // _BLOCK_BYTES)) + 1
        for some in np.split(few, cuts) if len(few) else ():
            yield BlockRows(places[some], self.take(rows[some]), np.arange(len(some)))

    def _key(self, number: int) -> BlockKey:
        first, last = self.edges[number : number + 2].tolist()
        return first, last, int(self.first_page[first]), int(self.first_page[last])

    def _block(self, number: int) -> SectionBlock:
        key = self._key(number)
        rows = np.arange(*key[:2])
        empty = np.empty if self.files.may_keep(key, int(self.scored_bytes[rows].sum())) else BUFFERS.empty
        return self.files.keep(key, self.take(rows, empty))

    def take(
        self, rows: Ids, empty: Callable[[Sequence[int], str], NDArray[Any]] = np.empty, *, whole: bool = False
    ) -> SectionBlock:
        """Read rows, in this order.

        Args:
            rows: of the shard.
            empty: makes arrays.
            whole: read all arrays, also those that no score needs.
        """
        blank: set[int] = set()
        names = self.shard.about["arrays"] if whole else self._scored
        arrays = {name: self._read(name, rows, empty, blank) for name in names}
        return SectionBlock(self.about, {**arrays, "pages": self.pages[rows]}, self.query_projection, whole=not blank)

    def kept_frames(self, rows: Ids) -> list[KeptFrames] | None:
        """What a witness reads of these rows, in this order; None without one.

        Raises:
            UnreadableShard: a file has become too short.
        """
        if WITNESS_FRAMES not in self.shard.about["arrays"]:
            return None
        kept = self.files.frames
        found = {row: kept[row] for row in rows.tolist() if row in kept}
        missing = np.array(sorted({*rows.tolist()} - found.keys()), np.int64)
        if len(missing):
            read = np.split(self._read(WITNESS_FRAMES, missing, np.empty, set()), np.cumsum(self.pages[missing])[:-1])
            new = dict(zip(missing.tolist(), read, strict=True))
            self.files.keep_frames(new)
            found |= new
        return [KeptFrames.of(found[row], self._witness_facts[row]) for row in rows.tolist()]

    @cached_property
    def _witness_facts(self) -> NDArray[np.float32]:
        """(R, 2): hub offset and number of frames of each row."""
        return self._read(WITNESS_FACTS, np.arange(len(self)), np.empty, set())

    def background(self) -> NDArray[np.float32]:
        """(R, B, 2): what background sentences score on all rows."""
        parts = []
        for number, (first, last) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            block = self.files.kept.get(self._key(number))
            if block is None:
                parts.append(self._read("background", np.arange(first, last), np.empty, set()))
            else:
                parts.append(block.arrays["background"])
        return np.concatenate(parts)

    def checksum(self, row: int) -> int:
        """The checksum of the arrays of a row: of those that are kept, otherwise of those in the files."""
        (_, block, (at,)) = next(self.blocks(np.zeros(1, np.int64), np.array([row])))
        apart = [name for name in self.shard.about["arrays"] if name not in block.arrays]
        read = {name: self._read(name, np.array([row]), np.empty, set()) for name in apart}
        return block.checksum(int(at), {name: array_bytes(array) for name, array in read.items()})

    def unreadable(self) -> Ids:
        """The rows that cannot be read now, because the files are too short for them or the disk fails there."""
        try:
            whole = _complete_part(self.files, self.shard, self.pages).rows
        except LibraryError:
            whole = 0
        if whole < len(self):
            return self.rows[self.rows >= whole]
        parts = np.split(self.rows, np.searchsorted(self.rows, self.edges[1:-1]))
        return np.concatenate([self._failing(part) for part in parts])

    def _failing(self, rows: Ids) -> Ids:
        """Those of some rows that cannot be read, found by halves."""
        try:
            self.take(rows, whole=True)
            return rows[:0]
        except UnreadableShard:
            half = len(rows) // 2
            return np.concatenate([self._failing(rows[:half]), self._failing(rows[half:])]) if half else rows

    def _read(
        self, name: str, rows: Ids, empty: Callable[[Sequence[int], str], NDArray[Any]], blank: set[int]
    ) -> NDArray[Any]:
        """Read rows of an array. Those that cannot be read, and are of no video, are added to ``blank``."""
        about = self.shard.about["arrays"][name]
        starts = self.first_page if name in PAGED_ARRAYS else np.arange(len(self) + 1)
        first, last = starts[rows], starts[rows + 1]
        found = empty((int((last - first).sum()), *about["shape"]), about["dtype"])
        into, item = array_bytes(found), int(about["item"])
        runs = np.flatnonzero(np.append(True, first[1:] != last[:-1])) if len(rows) else first
        ends = np.append(runs[1:], len(rows)) if len(rows) else runs
        for begin, end in zip(runs.tolist(), ends.tolist(), strict=True):
            place, size = int(first[begin]) * item, int(last[end - 1] - first[begin]) * item
            try:
                self.files.read(name, place, into[:size])
            except UnreadableShard:
                blank |= self._read_singly(name, rows[begin:end], starts * item, into)
            into = into[size:]
        return found

    def _read_singly(self, name: str, rows: Ids, starts: Ids, into: memoryview) -> set[int]:
        """Read neighbouring rows one by one. Zeros stand for rows of no video that cannot be read: returns those."""
        blank = set()
        for row in rows.tolist():
            size = int(starts[row + 1] - starts[row])
            try:
                self.files.read(name, int(starts[row]), into[:size])
            except UnreadableShard:
                if row in self.rows:
                    raise
                into[:size] = bytes(size)
                blank.add(row)
            into = into[size:]
        return blank


def _complete_part(files: ShardFiles, shard: Shard, pages: NDArray[np.int32]) -> Shard:
    """The shard without the rows at its end that the files are too short for."""
    sizes = {name: files.size(name) for name in shard.about["arrays"]}
    short = [name for name, size in sizes.items() if size < shard.bytes(name)]
    ends = np.append(0, np.cumsum(pages, dtype=np.int64))  # (rows + 1,)
    rows = shard.rows
    for name in short:
        there = sizes[name] // int(shard.about["arrays"][name]["item"])
        rows = min(rows, int(np.searchsorted(ends, there, "right")) - 1 if name in PAGED_ARRAYS else there)
    if short and rows == 0:
        raise LibraryError(short_message(files.path(short[0]), sizes[short[0]], shard.bytes(short[0])))
    return replace(shard, rows=rows, pages=int(ends[rows]))
