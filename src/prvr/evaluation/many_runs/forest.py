"""Differences as points with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prvr.evaluation.figures import DIRECT, GAP, ROUTED, blank_figure
from prvr.evaluation.many_runs.changes import MethodChange

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def forest_figure(changes: Sequence[MethodChange]) -> Figure:
    """ΔSumR of every row: green where the interval lies above zero, red where below."""
    height = 0.75 + 0.3 * len(changes)
    with blank_figure(8.4, height) as figure:
        axes = figure.add_axes((0.34, 0.5 / height, 0.63, 1 - 0.6 / height))
        places = np.arange(len(changes))
        axes.axvline(0, color="#888888", linewidth=0.8)
        for place, change in zip(places, changes, strict=True):
            found = change.sum_r
            colour = ROUTED if found.low > 0 else GAP if found.high < 0 else DIRECT
            axes.plot([found.low, found.high], [place, place], color=colour, linewidth=1.6)
            axes.plot([found.delta], [place], "o", color=colour, markersize=5)
        axes.set_yticks(places, [change.row for change in changes], fontsize=8, parse_math=False)
        axes.set_ylim(len(changes) - 0.5, -0.5)
        axes.grid(axis="x", color="#E6E6E6", linewidth=0.6)
        axes.set_xlabel("ΔSumR")
    return figure
