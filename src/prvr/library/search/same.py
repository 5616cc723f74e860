"""The same video in several files is one hit: links, copies, and re-encodes whose samples look the same.

Links and copies have the same content digest in the catalogue. A re-encode has another one, so stored vectors decide:
as many tokens, the same duration, and every token nearly equal to the other's. Only videos that are neighbours in an
order are compared. A video that hardly changes over time is never merged this way: two recordings of one empty room
would look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from prvr.library.ingest.tracks import FRAMES
from prvr.library.store.background import Floats
from prvr.library.store.snapshot import Snapshot
from prvr.media import unit_rows

if TYPE_CHECKING:
    from prvr.library.search.moment_rank import RankedMoment
    from prvr.library.search.rank import RankedVideo
    from prvr.library.search.track_rank import TrackRanking

MEAN_COSINE, LEAST_COSINE = 0.998, 0.99  # of the tokens of a re-encode with those of its original
MOST_STILL = 0.95  # a video whose tokens all have a higher cosine with the first one hardly changes
AHEAD = 16  # videos after the page that may be files of its hits
_SECONDS = 0.2  # that durations may differ
_SCORES = 0.03  # that the scores of a re-encode may differ, for the query and for background sentences
_NEAR = 32  # hits before a video that it is compared with
_COMPARED = 1000  # first files of an order whose vectors are compared; the same for every page

_Hit = TypeVar("_Hit", "RankedVideo", "RankedMoment")


@dataclass(frozen=True)
class _Facts:
    duration: float
    tokens: int
    score: float  # of the request's query

    def resembles(self, other: _Facts | None) -> bool:
        return (
            other is not None
            and self.tokens == other.tokens
            and abs(self.duration - other.duration) <= _SECONDS
            and abs(self.score - other.score) <= _SCORES
        )


class SameVideos:
    """Groups the files of one request as they come, best first. A group has the place of its first one."""

    def __init__(self, snapshot: Snapshot, tracks: Mapping[str, TrackRanking]):
        self.snapshot, self.tracks, self.ranking = snapshot, tracks, tracks.get(FRAMES)
        self.groups: list[list[int]] = []
        self._group_of: dict[int, list[int]] = {}
        self._known: dict[int, _Facts | None] = {}
        self._scores: dict[int, Floats] = {}
        self._tokens: dict[int, Floats] = {}

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
        """A ranked file as the hit of its group, with the numbers of all others.

        It is named by the oldest file, or by the one that holds the words of the query.
        """
        if hit.match is not None:
            return replace(hit, also=self.others(hit.video))
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
        if len(self._group_of) >= _COMPARED:
            return None
        facts = self._facts(video)
        if facts is None:
            return None
        near = [group for group in self.groups[-_NEAR:] if facts.resembles(self._facts(group[0]))]
        if near:  # background sentences tell most of them apart without reading a vector
            theirs = np.stack([self._background(group[0]) for group in near])  # (n, B)
            close = np.abs(theirs - self._background(video)).max(1) <= _SCORES
            near = [group for group, alike in zip(near, close.tolist(), strict=True) if alike]
        return next((group for group in reversed(near) if self._looks_like(video, group[0])), None)

    def _facts(self, video: int) -> _Facts | None:
        """What is cheap to know of a video; None if that is too little."""
        if video not in self._known:
            duration = self.snapshot.videos[video].duration
            known = None
            if self.ranking is not None and self.ranking.holds(video) and duration is not None:
                sections = self.snapshot.tracks[FRAMES]
                tokens = int(sections.tokens[list(sections.by_video.of_video(video))].sum())
                known = _Facts(duration, tokens, self.ranking.score(video) - self.ranking.lift_of(video))
            self._known[video] = known
        return self._known[video]

    def _looks_like(self, video: int, other: int) -> bool:
        """Whether two videos have nearly equal samples."""
        mine, theirs = self._read(video), self._read(other)  # (m, D)
        if mine.shape != theirs.shape or float((mine @ mine[0]).min()) > MOST_STILL:
            return False
        cosines = (mine * theirs).sum(1)
        return float(cosines.min()) >= LEAST_COSINE and float(cosines.mean()) >= MEAN_COSINE

    def _background(self, video: int) -> Floats:
        """(B,): what background sentences score on the first section of a video."""
        if video not in self._scores:
            sections = self.snapshot.tracks[FRAMES]
            first = np.array(sections.by_video.of_video(video)[:1], np.int64)
            self._scores[video] = sections.background_scores(first)[0, :, 0]
        return self._scores[video]

    def _read(self, video: int) -> Floats:
        """All tokens of a video as unit vectors, (m, D)."""
        if video not in self._tokens:
            _, tokens = self.snapshot.tracks[FRAMES].tokens_of_video(video)
            self._tokens[video] = unit_rows(tokens)
        return self._tokens[video]
