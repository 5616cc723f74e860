"""Which shard holds which videos, and the part of a snapshot that a shard holds.

The assignment depends only on the library and on the number of shards, so every process computes the same one. All
sections of a video are in one shard. The videos of a shard are neighbours on disk, and all shards hold about the
same number of tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prvr.library import Ids, MappedShard, Snapshot, TrackSections


def assign_videos(snapshot: Snapshot, shards: int) -> list[Ids]:
    """The video numbers of each shard."""
    if not snapshot.tracks:
        return [np.zeros(0, np.int64) for _ in range(shards)]
    owners, tokens = (
        np.concatenate([getattr(track, name) for track in snapshot.tracks.values()]) for name in ("owners", "tokens")
    )
    videos, first, inverse = np.unique(owners, return_index=True, return_inverse=True)
    order = np.argsort(first)  # their order on disk
    videos, sizes = videos[order], np.bincount(inverse, weights=tokens)[order]
    middles = (sizes.cumsum() - sizes / 2) / max(1.0, sizes.sum())
    numbers = np.minimum((middles * shards).astype(np.int64), shards - 1)
    return [videos[numbers == number] for number in range(shards)]


def only_videos(snapshot: Snapshot, videos: Ids) -> Snapshot:
    """A snapshot of some of its videos. All arrays stay mapped as they are."""
    numbers = {name: np.flatnonzero(np.isin(track.owners, videos)) for name, track in snapshot.tracks.items()}
    return Snapshot(
        snapshot.generation,
        {number: snapshot.videos[number] for number in sorted(videos.tolist())},
        {name: _only_sections(snapshot.tracks[name], some) for name, some in numbers.items() if len(some)},
    )


def _only_sections(sections: TrackSections, numbers: Ids) -> TrackSections:
    groups = [numbers[sections.shard[numbers] == place] for place in range(len(sections.shards))]
    chosen = [(shard, here) for shard, here in zip(sections.shards, groups, strict=True) if len(here)]
    return TrackSections.of(
        [replace(shard, rows=sections.row[here]) for shard, here in chosen],
        [sections.owners[here] for _, here in chosen],
        [sections.tokens[here] for _, here in chosen],
    )


def cut_sections(sections: TrackSections, videos: Ids) -> TrackSections | None:
    """The sections of some videos, with arrays that hold only those; None if these videos have none.

    Neighbouring rows stay mapped; others are copied together.
    """
    numbers = np.flatnonzero(np.isin(sections.owners, videos))
    if not len(numbers):
        return None
    part = _only_sections(sections, numbers)
    edges = part.starts[1:-1]
    return TrackSections.of(
        [_cut_rows(shard) for shard in part.shards], np.split(part.owners, edges), np.split(part.tokens, edges)
    )


def _cut_rows(shard: MappedShard) -> MappedShard:
    first, last = int(shard.rows[0]), int(shard.rows[-1]) + 1
    pages = shard.gallery.first_page.numpy()
    if last - first == len(shard.rows):
        gallery = shard.gallery[first:last]
        spans = shard.arrays["spans"][int(pages[first]) : int(pages[last])]
        background = shard.arrays["background"][first:last]
    else:
        gallery = shard.gallery.take(shard.rows.tolist())
        spans = shard.arrays["spans"][np.concatenate([np.arange(pages[row], pages[row + 1]) for row in shard.rows])]
        background = shard.arrays["background"][shard.rows]
    arrays = {"spans": spans, "background": background}
    return MappedShard(shard.id, gallery, arrays, np.arange(len(shard.rows)))
