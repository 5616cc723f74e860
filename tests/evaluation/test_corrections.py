"""The explained correction follows from the rule alone."""

from __future__ import annotations

import pytest
import torch

from prvr.evaluation import Correction, find_correction, ranks
from prvr.scoring import Positives


def found(base: torch.Tensor, final: torch.Tensor, positives: Positives) -> Correction | None:
    return find_correction(ranks(base, positives), ranks(final, positives), base, final, positives)


def test_the_restored_query_whose_margin_grew_most_is_chosen() -> None:
    base = torch.tensor([[0.50, 0.60, 0.10], [0.40, 0.50, 0.20], [0.90, 0.10, 0.10]])
    final = torch.tensor([[0.70, 0.65, 0.10], [0.60, 0.45, 0.50], [1.90, 0.10, 0.10]])
    # Query 2 gains most but was right before; query 1 gains 0.20, query 0 gains 0.15.
    case = found(base, final, torch.tensor([0, 0, 0]))
    assert case is not None
    assert (case.query, case.truth, case.negative) == (1, 0, 1)
    assert (case.rank_before, case.rank_after, case.restored) == (2, 1, True)
    assert case.margin_before == pytest.approx(-0.10)
    assert case.margin_after == pytest.approx(0.10)  # over video 2, now the best wrong one


def test_without_a_restored_query_the_largest_improvement_is_chosen() -> None:
    base = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]])
    final = torch.tensor([[0.25, 0.2, 0.3, 0.4], [0.35, 0.2, 0.3, 0.4]])
    case = found(base, final, torch.tensor([0, 0]))
    assert case is not None
    assert (case.query, case.rank_before, case.rank_after, case.restored) == (1, 4, 2, False)
    assert case.negative == 3


def test_a_tie_goes_to_the_earliest_query() -> None:
    base, final = torch.tensor([[0.0, 1.0]] * 3), torch.tensor([[2.0, 1.0]] * 3)
    case = found(base, final, torch.tensor([0, 0, 0]))
    assert case is not None
    assert case.query == 0


def test_another_right_video_is_no_hard_negative() -> None:
    base = torch.tensor([[0.5, 0.9, 0.8]])
    final = torch.tensor([[1.0, 0.9, 0.95]])
    case = found(base, final, [[0, 2]])
    assert case is not None
    assert (case.truth, case.negative) == (0, 1)
    assert case.margin_before == pytest.approx(-0.1)
    assert case.margin_after == pytest.approx(0.1)


def test_where_nothing_improved_there_is_nothing_to_explain() -> None:
    base = torch.tensor([[0.5, 0.4], [0.1, 0.2]])
    assert found(base, base, torch.tensor([0, 0])) is None


def test_scores_of_different_galleries_are_refused() -> None:
    one = torch.tensor([1, 1])
    with pytest.raises(ValueError, match="same queries over the same gallery"):
        find_correction(one, one, torch.zeros(2, 3), torch.zeros(2, 4), one)
    with pytest.raises(ValueError, match="2 ranks for 3 rows"):
        find_correction(one, one, torch.zeros(3, 3), torch.zeros(3, 3), one)
