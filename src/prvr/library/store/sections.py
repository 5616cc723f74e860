"""Some sections of a track, video after video."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sections:
    """Sections of videos in order of their numbers; those of one video stand in order of time."""

    numbers: Ids  # (S,) in the track
    ids: Ids  # (V,) videos
    starts: Ids  # (V + 1,) where each video's sections begin, and the end of the last

    @staticmethod
    def of(owners: Ids) -> Sections:
        """All of a track, from whose sections they are, (S,)."""
        order = np.argsort(owners, kind="stable")
        ids, first = np.unique(owners[order], return_index=True)
        return Sections(order, ids, np.append(first, len(owners)))

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, video: int) -> int | None:
        """Where a video stands."""
        place = int(np.searchsorted(self.ids, video))
        return place if place < len(self.ids) and self.ids[place] == video else None

    def of_video(self, video: int) -> tuple[int, ...]:
        place = self.column(video)
        return () if place is None else tuple(self.numbers[self.starts[place] : self.starts[place + 1]].tolist())

    def only(self, videos: Ids) -> Sections:
        """Those of some videos, which need not all be there."""
        wanted = np.unique(videos)
        places = np.searchsorted(self.ids, wanted)
        there = places < len(self.ids)
        there[there] = self.ids[places[there]] == wanted[there]
        places = places[there]
        first, counts = self.starts[places], self.starts[places + 1] - self.starts[places]
        starts = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        return Sections(self.numbers[np.repeat(first, counts) + within], self.ids[places], starts)

    def best(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best section of each video: (rows, S) → (rows, V)."""
        if len(self.ids) == len(self):
            return scores
        found: NDArray[np.float32] = np.maximum.reduceat(scores, self.starts[:-1], axis=1)
        return found
