"""How one track of a library ranks its videos for a query: a video scores as its best section.

With an encoder alone, a part of what the video scores with everybody is taken off, so that *hubs*, which resemble every
sentence a little, do not win (``Knowledge.hub_weight``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prvr.library.search.confidence import FEWEST_SENTENCES, Presence, Standing
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.query import TrackQuery
from prvr.library.store.blocks import Ids
from prvr.library.store.sections import TrackSections

if TYPE_CHECKING:
    from prvr.library.ingest.witness import SentenceWords

_ROUNDING = 1e-5  # of a score that something was taken off and added to


@dataclass(frozen=True, eq=False)
class TrackRanking:
    """One track's scores of one query, by video."""

    query: TrackQuery
    scores: NDArray[np.float32]  # (V,) of ``query.sections.videos``
    standing: Standing
    taken_off: NDArray[np.float32] | None = None  # (V,) part of what each video scores with everybody
    lift: NDArray[np.float32] | None = None  # (V,) what a witness added to the score of each video
    said: SentenceWords | None = None  # the words that the witness read

    def __len__(self) -> int:
        return len(self.scores)

    def top(self, count: int) -> list[int]:
        """The best videos, at most ``count``. Of equal scores, the video with the lower number comes first."""
        if count < len(self.scores) // 8:  # cheaper than sorting all
            least = np.partition(self.scores, len(self.scores) - count)[len(self.scores) - count]
            some = np.flatnonzero(self.scores >= least)
            columns = some[np.argsort(-self.scores[some], kind="stable")][:count]
        else:
            columns = self._order[:count]
        videos: list[int] = self.query.sections.videos[columns].tolist()
        return videos

    @cached_property
    def _order(self) -> Ids:
        return np.argsort(-self.scores, kind="stable")

    def place(self, video: int) -> int | None:
        """The video's place from 0, or None if the track does not hold it."""
        column = self.query.sections.column(video)
        if column is None:
            return None
        score = self.scores[column]
        return int((self.scores > score).sum() + (self.scores[:column] == score).sum())

    def holds(self, video: int) -> bool:
        """Whether the track has this video."""
        return self.query.sections.column(video) is not None

    def score(self, video: int) -> float:
        """The score of a video that the track holds."""
        column = self.query.sections.column(video)
        assert column is not None
        return float(self.scores[column])

    def taken_off_score(self, video: int) -> float:
        """What was taken off the video's score, because it scores as much with everybody."""
        column = self.query.sections.column(video)
        return 0.0 if self.taken_off is None or column is None else float(self.taken_off[column])

    def lift_of(self, video: int) -> float:
        """What a witness added to the score of a video that the track holds."""
        return 0.0 if self.lift is None else float(self.lift[self.query.sections.column(video)])

    def presence(self, first: int) -> Presence:
        """Whether what was asked for is there, where ``first`` is the video that is shown first.

        Nothing stands out for sure if that is not the video that scores best. A filter may have left that one out, it
        may score as much with everybody, or others may hold the words of the query or please a witness more.
        """
        found = self.standing.presence
        return Presence("maybe") if found.word == "stands out" and not self._scores_best(first) else found

    def _scores_best(self, video: int) -> bool:
        if not self.holds(video):
            return False
        own = self.score(video) + self.taken_off_score(video) - self.lift_of(video)
        return own >= float(self.standing.scores.max()) - _ROUNDING

    def confidence(self, video: int, score: float) -> float | None:
        """The probability that a video, or a moment of it, is right. It is known for scores without a witness."""
        return self.standing.confidence(score - self.lift_of(video))


def rank_track(
    queries: Sequence[TrackQuery],
    scores: Sequence[NDArray[np.float32]],
    sections: TrackSections,
    knowledge: Knowledge,
    variations: Sequence[NDArray[np.float32] | None] | None = None,
) -> list[TrackRanking]:
    """Rank videos by their best section.

    Args:
        queries: Q queries.
        scores: for each query those of the sections that it reads (S',).
        sections: of the track.
        knowledge: how far its answers can be trusted.
        variations: for each query the best score of each of its variations, if its encoder knows few words.
    """
    rankings = []
    for query, of_sections, varied in zip(queries, scores, variations or [None] * len(queries), strict=True):
        read = query.read.best(of_sections)
        taken_off = None
        if knowledge.hub_weight > 0 and len(read) and sections.understood.sum() >= FEWEST_SENTENCES:
            taken_off = knowledge.hub_weight * sections.score_with_everybody(query.read, query.fusion_weight)
        standing = Standing(
            read,
            sections.plain_background if query.fusion_weight == 0 else sections.background,
            knowledge.calibrations.get(query.fusion_weight > 0),
            None if query.reference is None else _weights(query, len(sections.by_video.videos)),
            varied,
        )
        found = np.searchsorted(query.read.videos, query.sections.videos)
        if taken_off is None:
            rankings.append(TrackRanking(query, read[found], standing))
        else:
            rankings.append(TrackRanking(query, (read - taken_off)[found], standing, taken_off[found]))
    return rankings


def _weights(query: TrackQuery, videos: int) -> NDArray[np.float64]:
    """For how many videos of the library each one that was read stands: the sample stands for all that were not."""
    assert query.reference is not None
    sample = np.isin(query.read.videos, query.reference)
    return np.where(sample, 1 + (videos - len(sample)) / max(1, sample.sum()), 1.0)
