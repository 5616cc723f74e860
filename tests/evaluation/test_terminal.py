"""Curves in a terminal keep their peaks."""

from __future__ import annotations

import math

import pytest
import torch

from prvr.evaluation import terminal_chart


def test_a_peak_survives_squeezing() -> None:
    curve = torch.zeros(1000)
    curve[503] = 1.0
    lines = terminal_chart(curve, width=20, height=3).splitlines()
    assert len(lines) == 4
    assert sum(line.count("█") for line in lines) == 3  # one full column
    assert lines[0].index("█") == lines[3].index("▲") == lines[0].index("┤") + 1 + 10
    assert lines[3].endswith("▲ 1.00")


def test_curves_share_one_scale() -> None:
    chart = terminal_chart({"a": [0.0, 1.0], "bb": [0.0, 0.5]}, width=2, height=2)
    first, _, _, second, _, _ = chart.splitlines()
    assert first.startswith("a   1.00 ┤")
    assert second == "bb  1.00 ┤"  # half as high: the upper line stays empty


def test_padding_stays_blank_and_flat_curves_are_drawn() -> None:
    assert terminal_chart([math.nan, 1.0, 3.0], width=3, height=1).splitlines()[0] == "3.00 ┤  █"
    assert "▲ 2.00" in terminal_chart([2.0, 2.0], width=4)


@pytest.mark.parametrize(("curve", "width"), [([], 5), ([math.nan], 5), ([1.0], 0)])
def test_nothing_to_draw_is_said(curve: list[float], width: int) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        terminal_chart(curve, width=width)
