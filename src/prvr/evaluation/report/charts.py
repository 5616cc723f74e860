"""The report's figures, except the evidence curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.evaluation.figures import DIRECT, GAP, INK, ROUTED, SUPPORT, blank_figure
from prvr.evaluation.report.content import Cell
from prvr.evaluation.significance import Estimate, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#888888"


def quartile_figure(bins: Sequence[Sequence[Cell]], gains: Sequence[Estimate]) -> Figure:
    """Mean rank gain per quartile of the gap, with its interval."""
    with blank_figure(5.6, 2.9) as figure:
        axes = figure.add_axes((0.13, 0.2, 0.84, 0.74))
        places = np.arange(len(gains))
        values = [gain.delta for gain in gains]
        reach = [[g.delta - g.low for g in gains], [g.high - g.delta for g in gains]]
        axes.bar(places, values, width=0.6, color=ROUTED, alpha=0.75)
        axes.errorbar(places, values, yerr=reach, fmt="none", ecolor=INK, elinewidth=1.0, capsize=4)
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_xticks(places, [f"{b[0]}\ngap {margin(b[2], 2)} to {margin(b[3], 2)}" for b in bins], fontsize=8)
        axes.set_ylabel("mean rank gain")
        _lines(axes)
    return figure


def sensitivity_figure(
    curves: Mapping[str, Mapping[float, tuple[float, float, float]]], in_force: Mapping[str, float], base: float
) -> Figure:
    """SumR over each weight; a curve's point is (SumR, low, high), the bounds as differences to the base."""
    with blank_figure(9.6, 2.8) as figure:
        grid = figure.add_gridspec(1, len(curves), left=0.07, right=0.985, top=0.9, bottom=0.2, wspace=0.1)
        first: Axes | None = None
        for column, (letter, points) in enumerate(curves.items()):
            axes = figure.add_subplot(grid[0, column], sharey=first)
            places = np.arange(len(points))
            total, low, high = np.array(list(points.values())).T
            axes.fill_between(places, base + low, base + high, color=ROUTED, alpha=0.15, linewidth=0)
            axes.plot(places, total, color=ROUTED, linewidth=1.8, marker="o", markersize=4)
            axes.axhline(base, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)))
            chosen = [place for place, value in enumerate(points) if value == in_force[letter]]
            axes.plot(chosen, total[chosen], "*", color=GAP, markersize=13, markeredgecolor="white", zorder=5)
            axes.set_xticks(places, [f"{value:g}" for value in points], fontsize=8)
            axes.set_xlabel(f"{letter}   (★ in force)")
            _lines(axes)
            if first is None:
                first = axes
                axes.set_ylabel("SumR")
            else:
                axes.tick_params(labelleft=False)
    return figure


def register_figure(
    pairs: Sequence[tuple[str, NDArray[np.float64]]],
    groups: Sequence[tuple[str, NDArray[np.float64]]],
    usage: NDArray[np.float64],
) -> Figure:
    """Three panels: activation of chosen pairs, dominant register per query group, its use over all pairs."""
    rows = max(len(pairs), len(groups), 4)
    height = 1.1 + 0.27 * rows
    with blank_figure(9.6, height) as figure:
        grid = figure.add_gridspec(
            1, 3, width_ratios=[1.25, 1.25, 1], left=0.275, right=0.985, top=1 - 0.42 / height, bottom=0.52 / height,
            wspace=0.55,
        )  # fmt: skip
        _heat(figure.add_subplot(grid[0, 0]), pairs, "(a) activation π of chosen pairs")
        _heat(figure.add_subplot(grid[0, 1]), groups, "(b) dominant register by word")
        axes = figure.add_subplot(grid[0, 2])
        registers = np.arange(1, len(usage) + 1)
        axes.bar(registers, 100 * usage, width=0.7, color=SUPPORT)
        axes.axhline(100 / len(usage), color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
        axes.set_xticks(registers)
        axes.set_xlabel("register")
        axes.set_title("(c) dominant (%)", loc="left", fontsize=9, fontweight="bold")
        _lines(axes)
    return figure


def corrections_figure(names: Sequence[str], before: Any, after: Any, truth: Any, negative: Any) -> Figure:
    """Left: the margin over the hard negative before and after. Right: what was added to each of the two."""
    count = len(names)
    height = 1.3 + 0.36 * count
    with blank_figure(9.6, height) as figure:
        grid = figure.add_gridspec(
            1, 2, left=0.27, right=0.985, top=1 - 0.62 / height, bottom=0.5 / height, wspace=0.1
        )  # fmt: skip
        places = np.arange(count)
        left, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
        left.axvline(0, color=GREY, linewidth=0.9)
        left.hlines(places, before, after, color=GREY, linewidth=1.2)
        left.plot(before, places, "o", color=DIRECT, markersize=6, label="base")
        left.plot(after, places, "o", color=ROUTED, markersize=6, label="TRACE")
        left.set_xlabel("margin over the hard negative")
        for offset, values, color, label in (
            (-0.26, truth, ROUTED, "ΔGT"),
            (0.0, negative, GAP, "ΔHN"),
            (0.26, truth - negative, SUPPORT, "Δadv = ΔGT − ΔHN"),
        ):
            right.barh(places + offset, values, height=0.24, color=color, label=label)
        right.axvline(0, color=GREY, linewidth=0.9)
        right.set_xlabel("score added by TRACE")
        for axes in (left, right):
            axes.set_ylim(count - 0.4, -0.6)
            axes.grid(axis="x", color="#E6E6E6", linewidth=0.6)
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, frameon=False, fontsize=8.5)
        left.set_yticks(places, names, fontsize=8, parse_math=False)
        right.set_yticks([])
    return figure


def comparison_figure(first: Any, second: Any, names: tuple[str, str]) -> Figure:
    """Every query's rank under two runs, on logarithmic axes; below the diagonal the second run is better."""
    with blank_figure(5.2, 4.6) as figure:
        axes = figure.add_axes((0.13, 0.12, 0.84, 0.84))
        better, worse = second < first, second > first
        for rows, color, label in (
            (~(better | worse), "#B8C4C2", "the same"),
            (worse, GAP, "worse in the second"),
            (better, ROUTED, "better in the second"),
        ):
            axes.plot(
                first[rows], second[rows], "o", color=color, markersize=3.5, alpha=0.55, markeredgewidth=0,
                label=f"{label} ({int(rows.sum())})",
            )  # fmt: skip
        top = float(max(first.max(), second.max())) * 1.15
        axes.plot([1, top], [1, top], color=GREY, linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlim=(0.85, top), ylim=(0.85, top))
        axes.set_xlabel(f"rank in {names[0]}", parse_math=False)
        axes.set_ylabel(f"rank in {names[1]}", parse_math=False)
        axes.legend(loc="upper left", frameon=False, fontsize=8)
    return figure


def _heat(axes: Axes, rows: Sequence[tuple[str, NDArray[np.float64]]], title: str) -> None:
    """Rows of shares as a grid of shades, the numbers written in."""
    values = np.stack([row for _, row in rows])
    axes.imshow(values, cmap="Greens", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        shade = "white" if value > 0.55 else "#222222"
        axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=shade)
    axes.set_xticks(range(values.shape[1]), [str(k + 1) for k in range(values.shape[1])])
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=7.5, parse_math=False)
    axes.tick_params(length=0)
    axes.set_xlabel("register")
    axes.set_title(title, loc="left", fontsize=9, fontweight="bold")


def _lines(axes: Axes) -> None:
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)


def margin(value: Any, digits: int = 4) -> str:
    """A difference for a caption: with its sign, a true minus."""
    return signed(float(value), digits).replace("-", "−")
