"""A library at one point in time. Later changes to the library do not affect it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError
from prvr.library.store.arrays import ShardMissing, is_new, map_shard, read_shards
from prvr.library.store.catalogue import Catalogue, Video, read_generation, read_videos
from prvr.library.store.sections import Ids, MappedSections, MappedShard, TrackSections
from prvr.library.store.settings import LibraryRecord, kept_record

if TYPE_CHECKING:
    from prvr.library.search.filters import Filters

_TRIES = 20

QueryProjection = Callable[[str], NDArray[np.float32] | None]  # track name -> TRACE's query projection (D, D)


@dataclass(frozen=True)
class Snapshot:
    """Videos and tracks of one generation of a library."""

    generation: Hashable  # differs between two states of the library
    videos: Mapping[int, Video]  # those that can be searched, by number
    tracks: Mapping[str, TrackSections]  # by name; a track without sections is absent
    record: LibraryRecord  # how its vectors were made

    @cached_property
    def copies(self) -> Mapping[int, tuple[int, ...]]:
        """For each video that is there more than once, the numbers of the other files with the same content."""
        return other_copies((video.digest, video.id) for video in self.videos.values())

    def choose(self, filters: Filters) -> Ids:
        """Numbers of the videos that pass the filters, ascending."""
        return np.array(sorted(filters.choose(self.videos.values())), np.int64)


def other_copies(digests: Iterable[tuple[str, int]]) -> dict[int, tuple[int, ...]]:
    """Numbers of videos with the same digest, for each video that has such.

    >>> other_copies([("a", 1), ("b", 2), ("a", 3)])
    {1: (3,), 3: (1,)}
    """
    groups: dict[str, list[int]] = {}
    for digest, number in digests:
        groups.setdefault(digest, []).append(number)
    found = (group for digest, group in groups.items() if digest and len(group) > 1)
    return {number: tuple(each for each in group if each != number) for group in found for number in group}


def take_snapshot(
    catalogue: Catalogue,
    folder: Path,
    previous: Snapshot | None,
    projection: QueryProjection,
    record: LibraryRecord,
) -> Snapshot:
    """Map the library as it is now. Returns ``previous`` itself if nothing has changed since.

    ``record`` is what is known of how vectors are made. The snapshot has another one if the library was reindexed.
    """
    for _ in range(_TRIES):
        try:
            with catalogue.reading() as db:
                now = read_generation(db)
                if previous is not None and previous.generation == now:
                    return previous
                kept = kept_record(db, folder)
                current = record if kept is None or kept == record else kept
                return _map_tracks(db, folder, now, projection, current)
        except ShardMissing:  # a process without the lock deleted files: read the catalogue again
            continue
    raise LibraryError(f"{folder} changes faster than it can be read. Try again.")


def _map_tracks(
    db: sqlite3.Connection, folder: Path, now: int, projection: QueryProjection, record: LibraryRecord
) -> Snapshot:
    videos = {video.id: video for video in read_videos(db, "state = 'ok'")}
    shards: dict[str, list[MappedShard]] = {}
    owners: dict[str, list[Ids]] = {}
    tokens: dict[str, list[Ids]] = {}
    for shard in read_shards(db):
        if is_new(shard.track):
            continue
        sections = db.execute(
            "SELECT video, row, tokens FROM sections WHERE shard = ? ORDER BY row", (shard.id,)
        ).fetchall()
        if not sections:
            continue
        about, arrays, projected = shard.about["gallery"], map_shard(folder, shard), projection(shard.track)
        columns = np.array(sections, np.int64)  # (sections, 3)
        shards.setdefault(shard.track, []).append(MappedShard(about, arrays, projected, shard.id, columns[:, 1]))
        owners.setdefault(shard.track, []).append(columns[:, 0])
        tokens.setdefault(shard.track, []).append(columns[:, 2])
    tracks = {track: MappedSections(shards[track], owners[track], tokens[track]) for track in shards}
    return Snapshot(now, videos, tracks, record)
