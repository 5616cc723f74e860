"""The sections of a lake: whose they are, and a bounded cache of the vectors that were read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.lake.rows import SectionLayout, checksum_of
from prvr.lake.tables import DamagedTable, LakeError, explained
from prvr.library import BlockRows, DamagedVectors, Ids, SectionBlock, TrackSections
from prvr.media import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

CACHE_MEGABYTES = "PRVR_LAKE_CACHE"  # environment variable: memory for sections that were read
_DEFAULT_MEGABYTES = 2048
_BLOCK_TOKENS = 1 << 16  # read together
_PROBES = 8  # sections of one file that are read to see whether any of it can be
_BACKGROUND_BYTES = 1 << 28  # of background scores that are kept in memory
_LARGE = 1 << 16  # sections; above, the background is computed again only when the library has changed by a twentieth


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
    with suppress(ValueError, OverflowError):
        if (found := int(float(text) * (1 << 20))) >= 0:
            return found
    raise LakeError(f"{CACHE_MEGABYTES} is a number of megabytes, not {text!r}")


@contextmanager
def described(place: str) -> Iterator[None]:
    """A description that does not fit its sections is damaged. New tables have a checksum of it, older ones none."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
        raise DamagedTable(f"the description of {place} is damaged ({problem}): restore it from a copy") from problem


class LakeSections(TrackSections):
    """The sections of a track. Their vectors are read when a search needs them."""

    def __init__(
        self,
        table: LanceDataset,
        track: str,
        owner_of: Callable[[Ids], Ids],
        projection: NDArray[np.float32] | None,
        cache: ValueCache,
    ):
        """``owner_of``: the video of each part, or −1. Files that cannot be read are left out."""
        self.table, self.track, self.projection, self.cache = table, track, projection, cache
        self.layout = SectionLayout.from_schema(table.schema)
        with described(table.uri):
            self.fusion_weight = float(self.layout.about["trace"]["fusion_weight"])
        rows, _ = scan_sections(table, ["part", "section", "tokens", "checksum"])
        owners = owner_of(rows["part"])
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
        damaged: set[int] = set()
        for places in np.split(np.arange(len(chosen)), cuts) if len(chosen) else ():
            try:
                block = self.read(chosen[places])
            except DamagedVectors as found:
                damaged |= found.videos
                continue  # so that all that is damaged is known at the end
            yield BlockRows(places, block, np.arange(len(places)))
        if damaged:
            raise DamagedVectors(damaged)

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
        try:
            return self._take(numbers, columns)
        except DamagedTable:
            in_files = numbers[np.argsort(self.row_ids[numbers])]
            raise DamagedVectors(self.owners[self._failing(in_files, columns)].tolist()) from None

    def _take(self, numbers: Ids, columns: Sequence[str]) -> pa.Table:
        with explained(self.table.uri):
            return self.table.take(self.positions[numbers], columns=[*columns])

    def _failing(self, numbers: Ids, columns: Sequence[str]) -> Ids:
        """Sections that cannot be read, found by halves; ``numbers`` are in order of the files.

        If some from all over one file cannot, so is all between them.
        """

        def fails(some: Ids) -> bool:
            try:
                self._take(some, columns)
            except DamagedTable:
                return True
            return False

        if not fails(numbers):
            return numbers[:0]
        first, last = self.row_ids[numbers[[0, -1]]] >> 32  # files
        probes = np.unique(np.linspace(0, len(numbers) - 1, _PROBES, dtype=np.int64))
        if len(numbers) == 1 or (first == last and all(fails(numbers[[probe]]) for probe in probes)):
            return numbers
        return np.concatenate([self._failing(half, columns) for half in np.array_split(numbers, 2)])

    def background_scores(self, numbers: Ids) -> NDArray[np.float32]:
        if 4 * 2 * self.layout.sentences * len(self) <= _BACKGROUND_BYTES:
            return self._of_sentences(self._all_background_scores)[numbers]
        return self._of_sentences(list_matrix(self.take(numbers, ["background"])["background"]))

    def _of_sentences(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 2 B) → (n, B, 2)."""
        return scores.reshape(-1, self.layout.sentences, 2)

    @cached_property
    def _all_background_scores(self) -> NDArray[np.float32]:
        with suppress(DamagedTable), explained(self.table.uri):
            return list_matrix(self.table.to_table(columns=["background"])["background"])[self.positions]
        return list_matrix(self.take(np.arange(len(self)), ["background"])["background"])


def scan_sections(table: LanceDataset, columns: Sequence[str]) -> tuple[dict[str, NDArray[Any]], list[int]]:
    """Read columns of all rows, and their row ids.

    Returns:
        By name (rows,), and the fragments that cannot be read. All values of their rows are −1.
    """

    def scan(source: Any) -> dict[str, NDArray[Any]]:
        with explained(table.uri):
            found = source.scanner(columns=[*columns], with_row_id=True).to_table()
        return {name: found[name].to_numpy() for name in found.column_names}

    with suppress(DamagedTable):
        return scan(table), []
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
