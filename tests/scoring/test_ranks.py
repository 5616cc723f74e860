"""Ranks by counting give the place a stable sort gives, for every tie and every set of positives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prvr.scoring.recall import Recall, coverage, ranks, recalls

GOLDEN = Path(__file__).parents[1] / "golden" / "eval.npz"


def sorted_places(row: list[float]) -> dict[int, int]:
    """Naive: 1-based place of each video under a stable sort, best first."""
    order = sorted(range(len(row)), key=lambda video: -row[video])
    return {video: place for place, video in enumerate(order, start=1)}


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[list[float]], list[list[int]]]:
    """Few different score values, so that ties are the rule."""
    videos, queries = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    score = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0])
    scores = draw(st.lists(st.lists(score, min_size=videos, max_size=videos), min_size=queries, max_size=queries))
    positives = st.lists(st.integers(0, videos - 1), min_size=1, max_size=4)
    return scores, draw(st.lists(positives, min_size=queries, max_size=queries))


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(1, 40))
def test_ranks_and_coverage_equal_a_stable_sort_whatever_the_chunk(
    problem: tuple[list[list[float]], list[list[int]]], budget: int
) -> None:
    scores, positives = problem
    places = [sorted_places(row) for row in scores]
    best = [min(place[video] for video in right) for place, right in zip(places, positives, strict=True)]
    assert ranks(torch.tensor(scores), positives, budget=budget).tolist() == best
    for k in (1, 3):
        shares = [
            sum(place[video] <= k for video in set(right)) / len(set(right))
            for place, right in zip(places, positives, strict=True)
        ]
        assert coverage(torch.tensor(scores), positives, k, budget=budget) == pytest.approx(100 * np.mean(shares))


def test_the_golden_case() -> None:
    """Scores, labels, ranks and recalls measured with the reference evaluation of this benchmark."""
    with np.load(GOLDEN, allow_pickle=False) as golden:
        found = ranks(torch.from_numpy(golden["scores"]), torch.from_numpy(golden["labels"]))
        assert found.dtype == torch.int64
        assert found.tolist() == golden["ranks"].tolist()
        recall = recalls(found)
        numbers = [recall.r1, recall.r5, recall.r10, recall.r100, recall.sum_r]
        assert numbers == pytest.approx(golden["recalls"].tolist(), abs=1e-4)


def test_equal_scores_favour_the_earlier_video() -> None:
    scores = torch.full((4, 4), 0.25)
    assert ranks(scores, torch.arange(4)).tolist() == [1, 2, 3, 4]


def test_one_positive_as_tensor_and_as_lists_agree() -> None:
    scores = torch.randn(50, 30, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 30
    assert torch.equal(ranks(scores, labels), ranks(scores, [[int(label)] for label in labels]))
    assert coverage(scores, labels, 5) == pytest.approx(recalls(ranks(scores, labels)).r5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_any_score_type_is_ranked(dtype: torch.dtype) -> None:
    assert ranks(torch.tensor([[3, 1, 2]]).to(dtype), torch.tensor([2])).tolist() == [2]


def test_scores_that_need_gradients_are_ranked_without_them() -> None:
    found = ranks(torch.tensor([[0.1, 0.2]], requires_grad=True), torch.tensor([0]))
    assert found.tolist() == [2]
    assert not found.requires_grad


def test_recalls_of_a_case_counted_by_hand() -> None:
    recall = recalls(torch.tensor([1, 5, 6, 10, 11, 100, 101, 1]))
    assert (recall.r1, recall.r5, recall.r10, recall.r100) == (25.0, 37.5, 62.5, 87.5)
    assert recall.sum_r == 212.5
    assert recall.as_dict() == {"r1": 25.0, "r5": 37.5, "r10": 62.5, "r100": 87.5, "sum_r": 212.5, "count": 8}
    assert Recall.from_dict(recall.as_dict()) == recall


def test_other_cut_offs_are_read_by_index() -> None:
    recall = recalls(torch.tensor([1, 2, 3, 4]), ks=(3, 1))
    assert recall.cutoffs == (1, 3)
    assert recall[3] == 75.0
    with pytest.raises(KeyError, match="no R@5 here, only R@1, R@3"):
        _ = recall.r5


def test_scores_that_are_not_finite_are_counted_and_located() -> None:
    scores = torch.zeros(3, 4)
    scores[1, 2], scores[2, 0], scores[2, 3] = float("nan"), float("inf"), -float("inf")
    with pytest.raises(ValueError, match="1 NaN and 2 infinite values, the first at query 1, video 2"):
        ranks(scores, torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize(
    ("scores", "positives", "message"),
    [
        (torch.zeros(4), torch.tensor([0]), r"shape \(4,\), expected \(queries, videos\)"),
        (torch.zeros(2, 4), torch.tensor([0]), "1 queries have positives but scores have 2 rows"),
        (torch.zeros(2, 4), torch.tensor([0, 4]), "outside the gallery of 4 videos, the first is 4 for query 1"),
        (torch.zeros(2, 4), [[0], [-1]], "the first is -1 for query 1"),
        (torch.zeros(2, 4), [[0], []], "1 queries have no positive, the first is query 1"),
        (torch.zeros(2, 4), torch.tensor([0.0, 1.0]), "expected integers"),
        (torch.zeros(2, 4), torch.zeros(2, 2, dtype=torch.int64), "list of lists"),
        (torch.zeros(2, 4), [0, 1], "use torch.tensor"),
    ],
)
def test_what_cannot_be_ranked_is_refused_with_the_reason(scores: torch.Tensor, positives, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ranks(scores, positives)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (torch.tensor([], dtype=torch.int64), "no queries"),
        (torch.tensor([0, 1]), "smallest rank is 0"),
        (torch.tensor([1.0]), r"ranks\(scores, positives\)"),
    ],
)
def test_what_are_not_ranks_has_no_recall(found: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recalls(found)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_counts_the_same() -> None:
    scores = torch.randint(0, 50, (200, 400), generator=torch.Generator().manual_seed(0)).float()
    positives = [[query % 400, (7 * query) % 400] for query in range(200)]
    assert torch.equal(ranks(scores.cuda(), positives).cpu(), ranks(scores, positives))
    assert coverage(scores.cuda(), positives, 10) == pytest.approx(coverage(scores, positives, 10))
