"""Dropout with cheap masks is dropout."""

from __future__ import annotations

import pytest
import torch

from prvr.dropout import Dropout, dropout


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.31])
def test_the_share_of_dropped_numbers_is_the_rate(rate: float) -> None:
    torch.manual_seed(0)
    dropped = dropout(torch.ones(401, 999), rate, training=True)
    assert float((dropped == 0).float().mean()) == pytest.approx(rate, abs=0.004)  # five deviations
    assert dropped.max() == pytest.approx(1 / (1 - rate))


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    zero = dropout(torch.ones(400_000), 0.5, training=True) == 0
    for lag in (1, 2, 3, 4, 8):
        assert float((zero[lag:] & zero[:-lag]).float().mean()) == pytest.approx(0.25, abs=0.005)


def test_gradients_pass_where_numbers_did() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = dropout(x, 0.25, training=True)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_a_seed_gives_the_same_mask_and_evaluation_none() -> None:
    layer, x = Dropout(0.25), torch.randn(3, 5)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer.eval()(x), x)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_all_or_nothing(rate: float) -> None:
    assert torch.equal(dropout(torch.ones(9), rate, training=True), torch.full((9,), 1 - rate))
