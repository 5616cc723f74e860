"""What shards tell, put together: the ranking of one library, though no shard tells all its scores.

The best of all are among the best of each part. A video's place is how many come before it in each part, added up.
What confidence needs of all videos are counts, sums and maxima.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from prvr.cluster.parts import Best, Few, Need, PlacesOf, ScoresOf
from prvr.library.search.asking import Question
from prvr.library.search.confidence import Heard, Moments
from prvr.library.search.rank import Ranked, RankedTrack
from prvr.library.store.snapshot import TrackView

Ask = Callable[[Sequence[Need]], list[list[Any]]]  # of each need, the answers of parts that hold something


class GatheredTrack(RankedTrack):
    """One track's answer to one query, of which only the beginning is here; the rest is asked for."""

    def __init__(self, view: TrackView, question: Question, best: Best, parts: list[Few], heard: Heard, ask: Ask):
        trace = question.wanted[best.row].trace
        vector = torch.from_numpy(question.vectors[best.track][best.row].copy())
        super().__init__(view, vector, view.fusion_weight if trace else 0.0)
        self.row, self.name, self._ask, self._heard = best.row, best.track, ask, heard
        self._count = sum(part.count for part in parts)
        self._moments = Moments.joined([part.moments for part in parts])
        self._scores: dict[int, float] = {}
        self._places: dict[int, int | None] = {}
        self._first: list[int] = []
        self._take(best.depth, parts)

    def _take(self, depth: int, parts: list[Few]) -> None:
        """Beyond ``depth`` a part may hold others that would come between."""
        ids, scores = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "scores"))
        order = np.lexsort((ids, -scores))[:depth]
        self._first = ids[order].tolist()
        self._scores.update(zip(self._first, scores[order].tolist(), strict=True))
        self._places.update({video: place for place, video in enumerate(self._first)})

    @property
    def count(self) -> int:
        return self._count

    def first(self, count: int) -> list[int]:
        if len(self._first) < min(count, self._count):
            depth = max(count, 2 * len(self._first))
            self._take(depth, self._ask([Best(self.row, self.name, depth)])[0])
        return self._first[:count]

    def place(self, video: int) -> int | None:
        self.know([video])
        return self._places[video]

    def score(self, video: int) -> float:
        self.place(video)
        return self._scores[video]

    @property
    def heard(self) -> Heard:
        return self._heard

    @property
    def moments(self) -> Moments:
        return self._moments

    def know(self, videos: Sequence[int]) -> None:
        know(self._ask, [(self, videos)])

    def unknown(self, videos: Sequence[int]) -> list[int]:
        return sorted(set(videos) - set(self._places))

    def learn(self, ids: Sequence[int], scores: Sequence[float], places: Sequence[int]) -> None:
        self._scores.update(zip(ids, scores, strict=True))
        self._places.update(zip(ids, places, strict=True))

    def learn_absent(self, videos: Sequence[int]) -> None:
        """No part holds them, as far as parts were asked."""
        self._places.update({video: None for video in videos if video not in self._places})


def know(ask: Ask, needed: Sequence[tuple[GatheredTrack, Sequence[int]]]) -> None:
    """Places and scores of videos: their scores first, from whoever holds them, then how many come before each."""
    wanted = [(track, videos) for track, some in needed if (videos := track.unknown(some))]
    if not wanted:
        return
    told = ask([ScoresOf(track.row, track.name, np.array(videos, np.int64)) for track, videos in wanted])
    held = []
    for (track, _), parts in zip(wanted, told, strict=True):
        ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in parts)])
        scores = np.concatenate([np.zeros(0, np.float32), *(scores for _, scores in parts)])
        held.append((track, ids, scores))
    before = ask([PlacesOf(track.row, track.name, ids, scores) for track, ids, scores in held])
    for (track, ids, scores), parts, (_, videos) in zip(held, before, wanted, strict=True):
        places = np.stack([np.zeros(len(ids), np.int64), *parts]).sum(0)
        track.learn(ids.tolist(), scores.tolist(), places.tolist())
        track.learn_absent(videos)


class Gathered(Ranked):
    """Answers that can be asked for more, all at once."""

    def __init__(self, rows: Sequence[dict[str, GatheredTrack]], ask: Ask):
        super().__init__([{**row} for row in rows])
        self.tracks, self._ask = rows, ask

    def know(self, needed: Sequence[tuple[int, str, Sequence[int]]]) -> None:
        know(self._ask, [(self.tracks[row][name], videos) for row, name, videos in needed])
