"""The same video in several files is one hit: links, copies, and re-encodes whose samples look the same.

Links and copies have the same content digest in the catalogue. A re-encode has another one, so stored vectors decide:
as many tokens, the same duration, and every token nearly equal to the other's. Only videos that are neighbours in an
order are compared. A video that hardly changes over time is never merged this way: two recordings of one empty room
would look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor

from prvr.library.ingest.tracks import FRAMES
from prvr.library.store.snapshot import Snapshot

if TYPE_CHECKING:
    from prvr.library.search.moment_rank import RankedMoment
    from prvr.library.search.rank import RankedVideo, TrackRanking

MEAN_COSINE, LEAST_COSINE = 0.998, 0.99  # of the tokens of a re-encode with those of its original
MOST_STILL = 0.95  # a video whose tokens all have a higher cosine with the first one hardly changes
AHEAD = 16  # videos after the page that may be files of its hits
_SECONDS = 0.2  # that durations may differ
_SCORES = 0.05  # that the scores of a re-encode may differ
_NEAR = 32  # hits before a video that it is compared with

_Hit = TypeVar("_Hit", "RankedVideo", "RankedMoment")


class SameVideos:
    """Groups the files of one request as they come, best first. A group has the place of its first one."""

    def __init__(self, snapshot: Snapshot, tracks: Mapping[str, TrackRanking]):
        self.snapshot, self.tracks, self.ranking = snapshot, tracks, tracks.get(FRAMES)
        self.groups: list[list[int]] = []
        self._group_of: dict[int, list[int]] = {}
        self._tokens: dict[int, Tensor] = {}

    def group(self, video: int) -> list[int]:
        """The group of a video: one that exists, or a new one."""
        if video not in self._group_of:
            found = self._find(video)
            if found is None:
                found = []
                self.groups.append(found)
            found.append(video)
            self._group_of[video] = found
        return self._group_of[video]

    def shown(self, hit: _Hit) -> _Hit:
        """A ranked file as the hit of its group: named by the oldest file, with the numbers of all the others."""
        oldest = min(video for video in self.group(hit.video) if self.tracks[hit.track].holds(video))
        return replace(hit, video=oldest, also=self.others(oldest))

    def others(self, video: int) -> tuple[int, ...]:
        """The other files of a video, with all their copies in the library."""
        group = self._group_of.get(video, [video])
        return tuple(sorted({*group, *(copy for each in group for copy in self._copies(each))} - {video}))

    def first_of_each(self, videos: Iterable[int], count: int) -> list[int]:
        """The first file of each video, at most ``count``; a few more are looked at for files of those."""
        beyond = 0
        for video in videos:
            self.group(video)
            beyond += len(self.groups) >= count
            if beyond > AHEAD:
                break
        return [group[0] for group in self.groups[:count]]

    def _copies(self, video: int) -> tuple[int, ...]:
        return self.snapshot.copies.get(video, ())

    def _find(self, video: int) -> list[int] | None:
        for copy in self._copies(video):
            if copy in self._group_of:
                return self._group_of[copy]
        return next((group for group in reversed(self.groups[-_NEAR:]) if self._looks_like(video, group[0])), None)

    def _looks_like(self, video: int, other: int) -> bool:
        """Whether two videos have nearly equal samples. What is cheap to know is compared first."""
        if self.ranking is None or not (self.ranking.holds(video) and self.ranking.holds(other)):
            return False
        if abs(self.ranking.score(video) - self.ranking.score(other)) > _SCORES:
            return False
        one, two = (self.snapshot.videos[each].duration for each in (video, other))
        if one is None or two is None or abs(one - two) > _SECONDS:
            return False
        mine, theirs = self._read(video), self._read(other)  # (m, D)
        if mine.shape != theirs.shape or float((mine @ mine[0]).min()) > MOST_STILL:
            return False
        cosines = (mine * theirs).sum(1)
        return float(cosines.min()) >= LEAST_COSINE and float(cosines.mean()) >= MEAN_COSINE

    def _read(self, video: int) -> Tensor:
        """All tokens of a video as unit vectors, (m, D)."""
        if video not in self._tokens:
            sections = self.snapshot.tracks[FRAMES]
            numbers = np.array(sections.by_video.of_video(video), np.int64)
            parts: dict[int, Tensor] = {}
            for places, block, rows in sections.blocks(numbers):
                for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                    parts[place] = block.tokens_of(row, int(sections.tokens[numbers[place]]))
            tokens = torch.cat([parts[place] for place in sorted(parts)])
            self._tokens[video] = torch.nn.functional.normalize(tokens, dim=1)
        return self._tokens[video]
