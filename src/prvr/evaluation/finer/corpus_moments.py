"""Moment retrieval in the whole corpus (VCMR) and in the right video (SVMR), from evidence curves.

A prediction is a video and a stretch of it. For each query, the 100 best videos by their score S(v) are taken, and in
each the 5 best stretches of the query's curve (``curve_moments``), with contrasts c₁ ≥ … ≥ c₅. All are ranked by
S(v) − (c₁ − c_k): a video's best stretch keeps the video's score, and its others lose as much as they are less clear.
A prediction is right at IoU t if it is in the labelled video and overlaps the moment (one of its windows) by t or more,
with a tolerance of 10⁻⁶ for rounding.
VCMR R@k is the share of queries with a right one among the first k. SVMR ranks the stretches of the labelled video.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.data import Dataset
from prvr.evaluation.curve_moments import IOU_TOLERANCE, best_stretches
from prvr.evaluation.encoded_split import EncodedSplit
from prvr.evaluation.finer.answers import Answers
from prvr.scoring import CUTOFFS
from prvr.trace import PairProducts, TraceConfig, pair_evidence

IOUS = (0.3, 0.5, 0.7)
VIDEOS = 100  # best videos of a query that are looked into
STRETCHES = 5  # of each of them
PREDICTIONS = 100  # that are kept of each query
OWN_AT = (1, 5)  # the k of R@k in the right video
_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 27}  # scores of stretches that are held at once
_QUICK = {"cpu": 1 << 31, "cuda": 1 << 35}  # scores in all that take seconds

Tick = Callable[[int, int], None]  # videos looked into, videos in all


@dataclass(frozen=True)
class MomentSearch:
    """The predictions of one scoring for the N queries whose moment is known; times are shares of a video's length."""

    rows: Tensor  # (N,) which queries
    video: Tensor  # (N, P) gallery rows, best prediction first
    start: Tensor  # (N, P) float64
    end: Tensor  # (N, P)
    score: Tensor  # (N, P); −∞ where there are fewer
    overlap: Tensor  # (N, P) IoU with the moment; 0 in other videos
    own: Tensor  # (N, 5) IoU of the best stretches of the labelled video

    def first_right(self, iou: float) -> Tensor:
        """The rank of the first right prediction, (N,); 0 where none is."""
        return _first(self.overlap >= iou - IOU_TOLERANCE)

    def first_own(self, iou: float) -> Tensor:
        """The same among the stretches of the labelled video, (N,)."""
        return _first(self.own >= iou - IOU_TOLERANCE)

    def as_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """Recalls in percent: by ``vcmr`` and ``svmr``, IoU and k."""
        return {
            "vcmr": {f"{t:g}": recall_at(self.first_right(t), CUTOFFS) for t in IOUS},
            "svmr": {f"{t:g}": recall_at(self.first_own(t), OWN_AT) for t in IOUS},
        }


def recall_at(first: Tensor, ks: tuple[int, ...]) -> dict[str, float]:
    """The share of queries whose first right prediction is among the first k, percent; 0 means that none is right."""
    return {f"r{k}": 100.0 * float(((first > 0) & (first <= k)).double().mean()) for k in ks}


@torch.no_grad()
def search_moments(
    dataset: Dataset, split: EncodedSplit, config: TraceConfig, answers: Mapping[str, Answers], tick: Tick | None = None
) -> dict[str, MomentSearch]:
    """Predictions by scoring (``base``: the backbone's cosines, ``trace``: routed evidence).

    Empty where no query has a moment, or where the method has no vectors to compare with frames.
    """
    rows, windows = known_windows(dataset)
    if not len(rows) or not split.has_vectors:
        return {}
    scorings = [name for name in ("base", "trace") if name in answers]
    own = dataset.query_video[rows]
    found = {name: _Filled(torch.cat([answers[name].top[rows, :VIDEOS], own[:, None]], 1)) for name in scorings}
    for video in range(len(dataset)):
        for name, filled in found.items():
            _look(split, config, name, video, rows, filled)
        if tick is not None:
            tick(video + 1, len(dataset))
    return {name: _ranked(rows, own, windows, answers[name], filled) for name, filled in found.items()}


def search_is_quick(dataset: Dataset, split: EncodedSplit) -> bool:
    """Whether ``search_moments`` takes seconds, by the number of stretches that it compares.

    A report searches by itself only then: at the size of Charades-STA, two cores take longer for this than for all the
    rest of the report.
    """
    pairs = len(known_windows(dataset)[0]) * (min(VIDEOS, len(dataset)) + 1)
    scorings = 1 + (split.factors is not None)
    frames = split.videos.evidence_mask.sum(1).double()
    work = pairs * scorings * float((frames**2).mean())
    return work <= _QUICK.get(split.videos.evidence_mask.device.type, _QUICK["cpu"])


def known_windows(dataset: Dataset) -> tuple[Tensor, list[list[tuple[float, float]]]]:
    """The queries whose moment is known, (N,), and their windows as shares of the video's length."""
    known, rows, windows = dataset.moments or {}, [], []
    for row, caption in enumerate(dataset.captions):
        moment = known.get(caption.id)
        if moment is not None and moment.duration > 0:
            shares = [(a / moment.duration, b / moment.duration) for a, b in moment.windows if b > a]
            if shares:
                rows.append(row)
                windows.append(shares)
    return torch.tensor(rows, dtype=torch.long), windows


class _Filled:
    """Stretches of every (query, video) pair of a table of videos (N, C), as they are found."""

    def __init__(self, videos: Tensor):
        self.videos = videos
        shape = (*videos.shape, STRETCHES)
        self.start, self.end = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))
        self.contrast = torch.full(shape, -torch.inf)
        order = videos.flatten().sort(stable=True)
        self._cells, self._sorted = order.indices, order.values

    def cells(self, video: int) -> Tensor:
        """Where a video is in the table, as flat numbers."""
        edges = torch.searchsorted(self._sorted, torch.tensor([video, video + 1]))
        return self._cells[edges[0] : edges[1]]


def _look(split: EncodedSplit, config: TraceConfig, name: str, video: int, rows: Tensor, filled: _Filled) -> None:
    """Find the stretches of one video for all queries that have it in their table."""
    cells = filled.cells(video)
    mask = split.videos.evidence_mask[video]
    frames = int(mask.sum())
    for part in _parts(cells, frames, mask.device) if frames else ():
        queries = rows[part // filled.videos.shape[1]].to(mask.device)
        curves = _curves(split, config, name, video, queries)[:, mask]
        found = best_stretches(curves, STRETCHES)
        for target, value in (
            (filled.start, found.start.double() / frames),
            (filled.end, found.stop.double() / frames),
            (filled.contrast, found.score.float()),
        ):
            target.view(-1, STRETCHES)[part, : value.shape[1]] = value.cpu()


def _parts(cells: Tensor, frames: int, device: torch.device) -> Iterator[Tensor]:
    budget = _NUMBERS.get(device.type, _NUMBERS["cpu"])
    return iter(torch.split(cells, max(1, budget // frames**2)) if len(cells) else ())


def _curves(split: EncodedSplit, config: TraceConfig, name: str, video: int, queries: Tensor) -> Tensor:
    """One video's curves, (n, M) with padding."""
    if name == "base":
        return split.queries[queries] @ F.normalize(split.videos.evidence[video], dim=-1).T
    assert split.factors is not None
    assert split.projected is not None
    factors = split.factors.map(lambda tensor: tensor[video : video + 1])
    return pair_evidence(PairProducts.of_one(split.projected[queries], factors, config.temperature), config).routed


def _ranked(
    rows: Tensor, own: Tensor, windows: list[list[tuple[float, float]]], answers: Answers, filled: _Filled
) -> MomentSearch:
    videos, contrast = filled.videos[:, :-1], filled.contrast[:, :-1]
    fused = answers.scores[rows, :VIDEOS, None] - (contrast[..., :1] - contrast)
    fused = fused.nan_to_num(nan=-torch.inf, neginf=-torch.inf)  # a video without frames has no stretches
    order = fused.flatten(1).sort(dim=1, descending=True, stable=True)
    chosen = order.indices[:, :PREDICTIONS]
    named = videos.gather(1, chosen // STRETCHES)
    start, end = (edge[:, :-1].flatten(1).gather(1, chosen) for edge in (filled.start, filled.end))
    overlap = _best_overlap(start, end, windows) * (named == own[:, None])
    inside = _best_overlap(filled.start[:, -1], filled.end[:, -1], windows)
    score = order.values[:, :PREDICTIONS]
    overlap = overlap.masked_fill(score == -torch.inf, 0.0)  # there are fewer
    inside = inside.masked_fill(filled.contrast[:, -1] == -torch.inf, 0.0)
    return MomentSearch(rows, named, start, end, score, overlap, inside)


def _best_overlap(start: Tensor, end: Tensor, windows: list[list[tuple[float, float]]]) -> Tensor:
    """IoU of stretches (N, P) with the best of each query's windows, (N, P)."""
    most = max(len(shares) for shares in windows)
    padded = torch.tensor([[*shares, *[(0.0, 0.0)] * (most - len(shares))] for shares in windows], dtype=torch.float64)
    best = torch.zeros(start.shape, dtype=torch.float64)
    for number in range(most):
        low, high = padded[:, number, :1], padded[:, number, 1:]
        shared = (torch.minimum(end, high) - torch.maximum(start, low)).clamp(min=0)
        union = (end - start) + (high - low) - shared
        best = torch.maximum(best, torch.where(union > 0, shared / union.clamp(min=1e-12), 0.0))
    return best


def _first(right: Tensor) -> Tensor:
    """The 1-based place of the first True of each row, (N, P) → (N,); 0 where there is none."""
    return torch.where(right.any(1), right.long().argmax(1) + 1, 0)
