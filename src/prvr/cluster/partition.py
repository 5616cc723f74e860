"""Which shard holds which videos: a function of the library and of how many shards there are, and of nothing else.

Every video lies in one shard with all its sections and tracks, so that its score is one shard's business. Shards are
runs of neighbours on disk, with equally many tokens: a shard's arrays stay mapped where they lie.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prvr.library.store.snapshot import Snapshot, TrackView, cut


def assign(snapshot: Snapshot, shards: int) -> list[NDArray[np.int64]]:
    """The videos of each shard."""
    tokens: dict[int, int] = {}
    for view in snapshot.tracks.values():
        for video, (_, _, count) in zip(view.videos, view.places, strict=True):
            tokens[video] = tokens.get(video, 0) + count
    ids = np.array(list(tokens), np.int64)
    sizes = np.array(list(tokens.values()), np.float64)
    middles = (sizes.cumsum() - sizes / 2) / max(1.0, sizes.sum())
    numbers = np.minimum((middles * shards).astype(np.int64), shards - 1)
    return [ids[numbers == number] for number in range(shards)]


def part_of(snapshot: Snapshot, videos: NDArray[np.int64]) -> Snapshot:
    """A snapshot of some of its videos; arrays of neighbours are cut, not copied."""
    mine = set(videos.tolist())
    tracks = {
        name: cut(view, np.flatnonzero(np.isin(view.owners, videos)), TrackView())
        for name, view in snapshot.tracks.items()
    }
    return Snapshot(
        snapshot.generation,
        {number: video for number, video in snapshot.videos.items() if number in mine},
        {name: view for name, view in tracks.items() if len(view)},
    )
