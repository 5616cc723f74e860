"""Hubness: whether few videos are answers to many queries.

N_k(v) is the number of queries that have video v among their first k answers (its k-occurrence). Hubness is the
skewness of N_k over the gallery, E[(N − μ)³]/σ³: 0 where all videos are answers equally often, large where few are
answers to all (Radovanović et al., 2010). A hub is a video with a large N_k, an antihub one with N_k = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from prvr.evaluation.finer.answers import Answers

WITHIN = 10  # k
TOP_HUBS = 10  # how many are named


@dataclass(frozen=True)
class Hub:
    """A video that is an answer to many queries."""

    video: str
    queries: int  # that have it among their first k answers
    correct: int  # of these, the queries that it is a correct answer to


@dataclass(frozen=True)
class Hubness:
    """How unevenly the first answers are spread over a gallery."""

    within: int  # k
    skewness: float  # of N_k
    largest: int  # the largest N_k
    places: float  # percent of all places among the first k that the top hubs take
    queries: float  # percent of queries that have a top hub among their first k
    antihubs: int  # videos that are nobody's answer
    labelled_skewness: float  # of how many queries each video is labelled with: what a perfect ranking has at k = 1
    hubs: tuple[Hub, ...]  # the top hubs

    @staticmethod
    def of(
        answers: Answers, video_ids: Sequence[str], positives: Sequence[Sequence[int]], truth: Tensor, k: int = WITHIN
    ) -> Hubness:
        """Count the first k answers. ``positives``: rows of correct videos per query; ``truth`` (Q,): the labelled."""
        first = answers.top[:, :k]
        counts = occurrences(answers, k)
        order = counts.sort(descending=True, stable=True).indices[:TOP_HUBS]
        top = torch.zeros(answers.videos, dtype=torch.bool)
        top[order] = True
        correct = torch.zeros(answers.videos, dtype=torch.long)
        for row, rows in enumerate(positives):
            right = [video for video in first[row].tolist() if video in rows]
            correct[right] += 1
        hubs = [Hub(video_ids[video], int(counts[video]), int(correct[video])) for video in order.tolist()]
        return Hubness(
            within=k,
            skewness=skewness(counts),
            largest=int(counts.max()),
            places=100.0 * float(top[first].double().mean()),
            queries=100.0 * float(top[first].any(1).double().mean()),
            antihubs=int((counts == 0).sum()),
            labelled_skewness=skewness(torch.bincount(truth.cpu(), minlength=answers.videos)),
            hubs=tuple(hubs),
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def occurrences(answers: Answers, k: int = WITHIN) -> Tensor:
    """N_k of every video, (V,)."""
    return torch.bincount(answers.top[:, :k].flatten(), minlength=answers.videos)


def skewness(counts: Tensor) -> float:
    """E[(N − μ)³]/σ³ of some numbers; 0 where all are equal.

    >>> round(skewness(torch.tensor([0, 0, 0, 4])), 3)
    1.155
    """
    away = counts.double() - counts.double().mean()
    deviation = float((away**2).mean().sqrt())
    return float((away**3).mean()) / deviation**3 if deviation > 0 else 0.0
