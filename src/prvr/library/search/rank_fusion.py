"""Reciprocal rank fusion: one order of videos from several tracks, and from videos that hold the words of the query.

Scores of different encoders cannot be compared, so only ranks count. A track other than the leading one changes the
order only where it stands out from background sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prvr.library.search.confidence import FEWEST_SENTENCES
from prvr.library.search.track_rank import TrackRanking

DEPTH = 100  # places of each track that count in a fusion
_RRF = 60  # the usual constant of reciprocal rank fusion
_STANDS_OUT = 0.9  # share of background sentences that a line must score above, to count beside the pictures


def rank_points(place: int) -> float:
    """What a place, counted from 0, is worth in a fusion.

    >>> rank_points(0)
    0.01639344262295082
    """
    return 1 / (_RRF + place + 1) if place < DEPTH else 0.0


def fuse_ranks(orders: Mapping[str, Sequence[int]]) -> dict[int, float]:
    """Reciprocal rank fusion: the sum of 1/(60 + place) over tracks, places counted from 1, the first hundred each.

    >>> fuse_ranks({"frames": [7, 8], "text": [8]})
    {7: 0.01639344262295082, 8: 0.03252247488101534}
    """
    points: dict[int, float] = {}
    for order in orders.values():
        for place, video in enumerate(order):
            points[video] = points.get(video, 0.0) + rank_points(place)
    return points


def standing_out(track: TrackRanking) -> list[int]:
    """Videos that score above nearly all background sentences, best first; all of the best if those are too few."""
    if len(track.standing.background.best) < FEWEST_SENTENCES:
        return track.top(DEPTH)
    return [video for video in track.top(DEPTH) if track.standing.above_background(track.score(video)) >= _STANDS_OUT]
