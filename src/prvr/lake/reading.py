"""Search a lake: one version of its tables as a ``Snapshot``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from prvr.lake.rows import HEAD, SEAL, SEALED_COLUMNS, is_broken, read_video
from prvr.lake.sections import LakeSections, ValueCache
from prvr.lake.tables import StoreAway, Table, explained
from prvr.library import (
    FRAMES,
    TEXT,
    Filters,
    Ids,
    LibraryRecord,
    QueryProjection,
    Snapshot,
    Video,
    absolute_path,
    other_copies,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

TRACKS = (FRAMES, TEXT)
_TRIES = 5
_FEW = 1 << 12  # videos whose checksums are compared when a version is read; of more, those of the hits


def broken_videos(rows: pa.Table) -> frozenset[int]:
    """Videos whose rows are not what was written."""
    found = rows.to_pylist() if SEAL in rows.column_names else []
    return frozenset(row["id"] for row in found if is_broken(row))


class LakeVideos(Mapping[int, Video]):
    """The videos of one version that can be searched, in order of their numbers."""

    def __init__(self, rows: pa.Table, *, checking: bool = False):
        """``checking``: compare the checksums of all rows, however many there are."""
        import pyarrow.compute as pc

        self.checked = checking or len(rows) <= _FEW
        self.broken = broken_videos(rows) if self.checked else frozenset()
        self.rows = rows.filter(pc.equal(rows["state"], "ok")).sort_by("id")
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


@dataclass(frozen=True)
class LakeSnapshot(Snapshot):
    """One version of the tables."""

    videos: LakeVideos
    tracks: Mapping[str, LakeSections]
    opened: tuple[LanceDataset, ...] = ()  # the table of videos, then those of sections

    @cached_property
    def incomplete(self) -> dict[int, int]:
        """Videos of which sections are not there, with their parts."""
        wrong = np.zeros(len(self.videos), bool)
        for track in TRACKS:
            owners = self.tracks[track].owners if track in self.tracks else np.zeros(0, np.int64)
            there = np.searchsorted(owners, self.videos.numbers, "right") - np.searchsorted(owners, self.videos.numbers)
            expected = self.videos.rows[f"{track}_sections"].to_numpy()
            wrong |= there != expected
        return dict(zip(self.videos.numbers[wrong].tolist(), self.videos.parts[wrong].tolist(), strict=True))

    def leaving_out_damage(self) -> LakeSnapshot:
        """The same without the vectors of videos whose rows have changed or of which sections are lost."""
        lost = {*self.videos.broken, *self.incomplete}
        return cast(LakeSnapshot, self.without(lost)) if lost else self

    def damaged_among(self, videos: Iterable[int]) -> set[int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.videos.rows
        chosen = pa.array([] if self.videos.checked else videos, pa.int64())
        return super().damaged_among(videos) | broken_videos(rows.filter(pc.is_in(rows["id"], value_set=chosen)))

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


def read_snapshot(
    tables: Mapping[str, Table],
    previous: Snapshot | None,
    projection: QueryProjection,
    cache: ValueCache,
    record: LibraryRecord,
    *,
    checking: bool = False,
) -> LakeSnapshot:
    """Open the newest version. Returns ``previous`` itself if nothing has changed since.

    Videos of which sections are lost are left out, unless ``checking``.
    """
    last = previous if isinstance(previous, LakeSnapshot) else None
    with explained(tables["videos"].lake):
        if last is not None and all(each.latest_version == each.version for each in last.opened):
            return last
        before: dict[int, int] = {}
        for _ in range(_TRIES):
            found = _read_version(tables, projection, cache, record, checking)
            if found.incomplete.items() <= before.items():
                break  # what was incomplete before and has not been replaced since is damaged
            if tables["videos"].require().version == found.opened[0].version:
                break  # it is not incomplete because a video was replaced meanwhile
            before = found.incomplete
        else:
            raise StoreAway(f"{tables['videos'].lake}: other processes change the library while it is read: try again")
    found = found if checking else found.leaving_out_damage()
    for track, sections in found.tracks.items():
        if last is not None and track in last.tracks:
            sections.keep_background(last.tracks[track])
    return found


def _read_version(
    tables: Mapping[str, Table], projection: QueryProjection, cache: ValueCache, record: LibraryRecord, checking: bool
) -> LakeSnapshot:
    """Open all tables and read whose sections there are."""
    table = tables["videos"].require()  # before the sections: those of every video in it are there already
    opened = {track: tables[track].open() for track in TRACKS}
    columns = SEALED_COLUMNS
    rows = table.to_table(columns=[*columns, *({SEAL} & {*table.schema.names})], filter=f"id != {HEAD}")
    videos = LakeVideos(rows, checking=checking)
    found = {track: of_track for track, of_track in opened.items() if of_track is not None}
    for track in TRACKS:
        if track not in found and videos.sections(track) and not checking:
            raise tables[track].lost()
    tracks = {
        track: LakeSections(of_track, track, videos.naming, projection(track), cache)
        for track, of_track in found.items()
    }
    versions = tuple(each.version for each in (table, *found.values()))
    with_sections = {track: sections for track, sections in tracks.items() if len(sections)}
    return LakeSnapshot(versions, videos, with_sections, record, opened=(table, *found.values()))
