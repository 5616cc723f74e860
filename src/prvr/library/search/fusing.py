"""Rankings of several tracks become one, by rank: scores of different encoders cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prvr.library.search.results import Hit

DEPTH = 100  # places of each track that count
_RRF = 60  # the usual constant of reciprocal rank fusion


def share(place: int) -> float:
    """What a place, counted from 0, is worth.

    >>> share(0)
    0.01639344262295082
    """
    return 1 / (_RRF + place + 1) if place < DEPTH else 0.0


def fused(orders: Mapping[str, Sequence[int]]) -> dict[int, float]:
    """Reciprocal rank fusion of videos: Σ 1/(60 + place), places counted from 1, the first hundred of each track.

    >>> fused({"frames": [7, 8], "text": [8]})
    {7: 0.01639344262295082, 8: 0.03252247488101534}
    """
    found: dict[int, float] = {}
    for order in orders.values():
        for place, video in enumerate(order):
            found[video] = found.get(video, 0.0) + share(place)
    return found


def fused_moments(orders: Mapping[str, Sequence[Hit]]) -> list[Hit]:
    """The same for moments. Those of two tracks that share some time of a video are one: the better placed is shown."""
    found: list[Hit] = []
    by_video: dict[int, list[int]] = {}
    placed = [(place, hit) for order in orders.values() for place, hit in enumerate(order)]
    for place, hit in sorted(placed, key=lambda pair: pair[0]):
        for number in by_video.setdefault(hit.video.id, []):
            other = found[number]
            if other.track != hit.track and hit.start < other.end and other.start < hit.end:
                sure = max((each for each in (hit.confidence, other.confidence) if each is not None), default=None)
                found[number] = replace(other, score=other.score + share(place), confidence=sure)
                break
        else:
            by_video[hit.video.id].append(len(found))
            found.append(replace(hit, score=share(place)))
    return sorted(found, key=lambda hit: -hit.score)
