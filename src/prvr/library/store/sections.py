"""The sections of a track, mapped into memory: what a search scores and explains.

A section is a stretch of a video that is stored and scored as one gallery row. Short videos have one section, long
ones several. A search asks three things of a track: whose sections there are (``owners``, ``by_video``), where their
vectors lie (``shards``, ``shard``, ``row``), and how background sentences score on them (``background_scores``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.store.background import Background, background_of
from prvr.scoring import Gallery

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MappedShard:
    """One shard of arrays in memory. Rows of removed videos are still in the arrays, but not in ``rows``."""

    id: int  # in the catalogue
    gallery: Gallery
    arrays: dict[str, Tensor]
    rows: Ids  # the rows of videos that are in the library

    @cached_property
    def spans(self) -> NDArray[np.float32]:
        """(tokens, 2): start and end of every token in seconds, page after page."""
        return self.arrays["spans"].reshape(-1, 2).numpy()

    @cached_property
    def pages(self) -> Ids:
        """(rows,): how many pages each row has."""
        pages: Ids = self.gallery.first_page.diff().numpy()
        return pages


@dataclass(frozen=True, eq=False)
class SectionsByVideo:
    """Sections grouped by video, in order of video number. Those of one video stand in order of time."""

    numbers: Ids  # (S,) section numbers in the track
    videos: Ids  # (V,) video numbers, ascending
    starts: Ids  # (V + 1,) where each video's sections begin in ``numbers``, then the end of the last

    @staticmethod
    def of(owners: Ids) -> SectionsByVideo:
        """Group all sections of a track by their owners (S,)."""
        order = np.argsort(owners, kind="stable")
        videos, first = np.unique(owners[order], return_index=True)
        return SectionsByVideo(order, videos, np.append(first, len(owners)))

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, video: int) -> int | None:
        """The place of a video in ``videos``, or None if it has no sections here."""
        place = int(np.searchsorted(self.videos, video))
        return place if place < len(self.videos) and self.videos[place] == video else None

    def of_video(self, video: int) -> tuple[int, ...]:
        """Section numbers of one video; empty if it has none."""
        place = self.column(video)
        return () if place is None else tuple(self.numbers[self.starts[place] : self.starts[place + 1]].tolist())

    def of_videos(self, videos: Ids) -> SectionsByVideo:
        """The sections of these videos. Videos without sections are ignored."""
        chosen = np.unique(videos)
        places = np.searchsorted(self.videos, chosen)
        present = places < len(self.videos)
        present[present] = self.videos[places[present]] == chosen[present]
        places = places[present]
        first, counts = self.starts[places], self.starts[places + 1] - self.starts[places]
        starts = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        return SectionsByVideo(self.numbers[np.repeat(first, counts) + within], self.videos[places], starts)

    def best(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best section's score of each video: (S,) → (V,)."""
        if len(self.videos) == len(self):
            return scores
        best: NDArray[np.float32] = np.maximum.reduceat(scores, self.starts[:-1])
        return best


@dataclass(frozen=True, eq=False)
class TrackSections:
    """All sections of one track, shard after shard. A section's number is its place in these arrays."""

    shards: tuple[MappedShard, ...]
    owners: Ids  # (S,) the video of each section
    shard: Ids  # (S,) the place of its shard in ``shards``
    row: Ids  # (S,) its row in that shard
    tokens: Ids  # (S,) how many tokens it has

    @staticmethod
    def of(shards: Sequence[MappedShard], owners: Sequence[Ids], tokens: Sequence[Ids]) -> TrackSections:
        """From shards, and for the rows of each shard their owners and token counts."""
        places = [np.full(len(shard.rows), place, np.int64) for place, shard in enumerate(shards)]
        rows = [shard.rows for shard in shards]
        return TrackSections(tuple(shards), *(np.concatenate(part) for part in (owners, places, rows, tokens)))

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def fusion_weight(self) -> float:
        """λ: how much TRACE's evidence adds to the base score."""
        return self.shards[0].gallery.config.fusion_weight

    @cached_property
    def starts(self) -> Ids:
        """(shards + 1,): the number of each shard's first section, then the count of all sections."""
        return np.cumsum([0, *(len(shard.rows) for shard in self.shards)])

    @cached_property
    def by_video(self) -> SectionsByVideo:
        return SectionsByVideo.of(self.owners)

    @cached_property
    def background_scores(self) -> NDArray[np.float32]:
        """(S, B, 2): base score and TRACE evidence of every background sentence on every section."""
        return np.concatenate([shard.arrays["background"].numpy()[shard.rows] for shard in self.shards])

    @cached_property
    def understood(self) -> NDArray[np.bool_]:
        """(B,): the background sentences that the encoder understands something of."""
        understood: NDArray[np.bool_] = (self.background_scores[..., 0] != 0).any(0)
        return understood

    @cached_property
    def background(self) -> Background:
        """What background sentences score on all videos, with TRACE."""
        return self.background_on(self.by_video, self.fusion_weight)

    @cached_property
    def plain_background(self) -> Background:
        """The same without TRACE."""
        return self.background_on(self.by_video, 0.0)

    def background_on(self, sections: SectionsByVideo, weight: float) -> Background:
        """The same on some videos; ``weight``: λ, how much TRACE's evidence counts."""
        numbers = sections.numbers
        return background_of(self.background_scores[numbers], self.owners[numbers], weight, self.understood)
