"""Figures of evidence over time: what plain max saw, and what TRACE read instead."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.evaluation.corrections import Correction
from prvr.evaluation.film_strip import Still, draw_strip, strip_aspect
from prvr.evaluation.significance import signed
from prvr.trace import PairEvidence, Peaked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

# Okabe and Ito's palette: colour-blind readers can tell the colours apart; in grey, the line styles differ.
DIRECT, SUPPORT, ROUTED, GAP, MOMENT, INK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#F0E442", "#333333"
_WIDTH = 9.6  # inches of a figure of curves
LEFT = 0.07  # of the figure's width: where headings and panels begin
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.hashsalt": "prvr",  # the same figure gives the same bytes
}


@dataclass(frozen=True)
class EvidenceCurves(Peaked):
    """One video seen by one query: evidence over its M valid frames, and its R register activations."""

    name: str
    direct: Floats  # (M,) d
    expected_support: Floats  # (M,) ḡ, the support on the cosine scale
    routed: Floats  # (M,) d + γρ
    activation: Floats  # (R,) π
    duration: float | None = None  # seconds
    windows: tuple[tuple[float, float], ...] = ()  # annotated starts and ends, seconds
    found: tuple[float, float] | None = None  # the moment that a search found, seconds

    @staticmethod
    def of(
        pairs: PairEvidence,
        row: int,
        name: str,
        *,
        duration: float | None = None,
        windows: tuple[tuple[float, float], ...] = (),
    ) -> EvidenceCurves:
        """Cut one pair out of the evidence of many; padded frames, which hold −∞, are left out."""
        valid = pairs.direct[row].isfinite()

        def curve(values: Tensor) -> Floats:
            found: Floats = values[row][valid].detach().double().cpu().numpy()
            return found

        return EvidenceCurves(
            name=name,
            direct=curve(pairs.direct),
            expected_support=curve(pairs.expected_support),
            routed=curve(pairs.routed),
            activation=pairs.activation[row].detach().double().cpu().numpy(),
            duration=duration,
            windows=windows,
        )

    def __post_init__(self) -> None:
        frames = {len(self.direct), len(self.expected_support), len(self.routed)}
        if len(frames) != 1 or 0 in frames or not len(self.activation):
            raise ValueError(
                f"curves of {self.name} have {len(self.direct)} direct, {len(self.expected_support)} support and "
                f"{len(self.routed)} routed values, and {len(self.activation)} registers; expected one value of each "
                "per valid frame and at least one register"
            )

    def times(self, in_seconds: bool) -> Floats:
        """The middle of each frame's stretch of the video, (M,)."""
        return (np.arange(len(self.direct)) + 0.5) * self.end(in_seconds) / len(self.direct)

    def end(self, in_seconds: bool) -> float:
        """Where the video ends: its duration, or its number of frames where seconds are unknown."""
        return self.duration if in_seconds and self.duration is not None else float(len(self.direct))


def correction_figure(sentence: str, correction: Correction, truth: EvidenceCurves, negative: EvidenceCurves) -> Figure:
    """Evidence over time in the right video (above) and in the hard negative (below), with register activation."""
    return evidence_figure(sentence, _verdict(correction), {"Ground truth": truth, "Hard negative": negative})


def evidence_figure(
    sentence: str, verdict: str, videos: Mapping[str, EvidenceCurves], stills: Sequence[Still] = ()
) -> Figure:
    """Evidence over time, one panel per video by its role, with register activation.

    Time is in seconds where all durations are known, in frames otherwise. ``stills``: pictures of the last video, one
    from each of as many equal stretches of it; they are shown below, and those of the found moment get a frame.
    """
    heading = textwrap.wrap(textwrap.shorten(f"“{sentence}”", width=170, placeholder=" …”"), width=88)
    header = 1.1 + 0.2 * len(heading)  # inches
    strip = 0.3 + _WIDTH * (0.985 - LEFT) * 0.8 * strip_aspect(stills) if len(stills) else 0.0
    footer = 0.52 + strip
    height = header + 2.25 * len(videos) + footer - 0.52
    in_seconds = all(video.duration is not None for video in videos.values())
    with blank_figure(_WIDTH, height) as figure:
        grid = figure.add_gridspec(
            len(videos), 2, width_ratios=[4.6, 1], left=LEFT, right=0.985, top=1 - header / height,
            bottom=footer / height, hspace=0.26, wspace=0.13,
        )  # fmt: skip
        panels: list[tuple[Axes, Axes]] = []
        for row, (role, video) in enumerate(videos.items()):
            first = panels[0] if panels else (None, None)
            axes = figure.add_subplot(grid[row, 0], sharex=first[0], sharey=first[0])
            bars = figure.add_subplot(grid[row, 1], sharex=first[1])
            panels.append((axes, bars))
            if row == 0:
                set_limits(axes, in_seconds, *videos.values())
                bars.set_title("Activation π", loc="left", fontsize=9.5, fontweight="bold", pad=5)
            draw_evidence(axes, video, role, in_seconds)
            _activation(bars, video)
            if row < len(videos) - 1:
                axes.tick_params(labelbottom=False)
                bars.tick_params(labelbottom=False)
        panels[-1][0].set_xlabel("time (s)" if in_seconds else "frame")
        if len(stills):
            draw_strip(figure, panels[-1][0], stills, strip, ROUTED)
        figure.text(
            LEFT, 1 - 0.2 / height, "\n".join(heading), fontsize=11.5, fontweight="bold", va="top", parse_math=False
        )
        figure.text(LEFT, 1 - (header - 0.83) / height, verdict, fontsize=9.5, va="top", color="#555555")
        handles, labels = panels[0][0].get_legend_handles_labels()
        crowded = len(labels) > 6
        figure.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(LEFT, 1 - (header - 0.5) / height), ncols=len(labels),
            frameon=False, handlelength=1.6, columnspacing=1.0 if crowded else 1.5, borderaxespad=0.0, borderpad=0.0,
            fontsize=7.6 if crowded else 8.5,
        )  # fmt: skip
    return figure


def cosine_figure(sentence: str, verdict: str, name: str, curve: Sequence[float]) -> Figure:
    """A single curve over frames, for a method without TRACE."""
    with blank_figure(_WIDTH, 3.0) as figure:
        axes = figure.add_axes((LEFT, 0.17, 0.985 - LEFT, 0.55))
        peak = int(np.argmax(curve))
        axes.plot(curve, color=DIRECT, linewidth=1.8)
        axes.plot(peak, curve[peak], "v", color=DIRECT, markersize=9, markeredgecolor="white", clip_on=False)
        axes.set_title(f"{name}: {verdict}", loc="left", fontsize=9.5, pad=5, parse_math=False)
        axes.set(xlabel="frame", ylabel="cos(q, frame)", xlim=(0, max(1, len(curve) - 1)))
        axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
        heading = textwrap.shorten(f"“{sentence}”", width=95, placeholder=" …”")
        figure.text(LEFT, 0.94, heading, fontsize=11.5, fontweight="bold", va="top", parse_math=False)
    return figure


@contextmanager
def blank_figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the house style, in inches; draw on it inside the block."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)  # never opens a window
        yield figure


def save_figure(figure: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.png`` and ``stem.svg``, and return their paths."""
    from matplotlib import rc_context

    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    with rc_context(STYLE):
        figure.savefig(png, dpi=200)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg


def set_limits(axes: Axes, in_seconds: bool, *videos: EvidenceCurves) -> None:
    """One scale for both panels, with room above for the peak markers and below for the gap's label."""
    values = np.concatenate(
        [curve for video in videos for curve in (video.direct, video.expected_support, video.routed)]
    )
    low, high = float(values.min()), float(values.max())
    room = max(high - low, 1e-3)
    axes.set_ylim(low - 0.24 * room, high + 0.12 * room)
    axes.set_xlim(0, max(video.end(in_seconds) for video in videos))


def draw_evidence(axes: Axes, video: EvidenceCurves, role: str, in_seconds: bool, *, brief: bool = False) -> None:
    """One video's curves, their peaks, and its annotated moment; ``brief``: for a narrow figure."""
    times, plain, traced = video.times(in_seconds), video.direct_peak, video.routed_peak
    marker: dict[str, Any] = {
        "linestyle": "none",
        "markeredgecolor": "white",
        "markeredgewidth": 1.0,
        "zorder": 5,
        "clip_on": False,
    }
    axes.plot(times, video.direct, color=DIRECT, linewidth=1.8, label="direct  d")
    axes.plot(
        times,
        video.expected_support,
        color=SUPPORT,
        linewidth=1.5,
        linestyle=(0, (4, 1.5)),
        label="register support  ḡ",
    )
    axes.plot(times, video.routed, color=ROUTED, linewidth=1.8, label="routed  d + γρ")
    axes.plot(times[plain], video.direct[plain], "v", color=DIRECT, markersize=9, label="peak of plain max", **marker)
    axes.plot(times[traced], video.routed[traced], "*", color=ROUTED, markersize=14, label="peak of TRACE", **marker)
    for number, window in enumerate(video.windows if in_seconds else ()):
        label = "annotated moment" if number == 0 else None
        axes.axvspan(*window, color=MOMENT, alpha=0.28, linewidth=0, zorder=0.5, label=label)
    if video.found is not None and in_seconds:
        edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "solid_capstyle": "butt", "zorder": 3}
        axes.plot(video.found, (0.985, 0.985), color=ROUTED, linewidth=5, label="found moment", **edge)
    if video.end(in_seconds) < axes.get_xlim()[1]:
        axes.axvspan(video.end(in_seconds), axes.get_xlim()[1], color="#F4F4F4", linewidth=0, zorder=2.5)
    _gap(axes, video, float(times[plain]), brief)
    axes.set_title(f"{role} · {video.name}", loc="left", fontsize=9.5, fontweight="bold", pad=5, parse_math=False)
    axes.set_ylabel("evidence")
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)


def _gap(axes: Axes, video: EvidenceCurves, time: float, brief: bool) -> None:
    """A bracket from support to direct evidence where direct evidence peaks; the numbers are below all curves."""
    top, bottom = video.direct[video.direct_peak], video.expected_support[video.direct_peak]
    floor, right = axes.get_ylim()[0], axes.get_xlim()[1]
    axes.plot([time, time], [floor, min(top, bottom)], color=GAP, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1.5)
    axes.plot([time, time], [bottom, top], color=GAP, linewidth=1.4, marker="_", markersize=7, zorder=4)
    towards_left = time > 0.6 * right
    label = f"direct {top:.2f}, support {bottom:.2f}"
    if video.found is None:  # whether the answer of a search is supported is judged elsewhere, and measured
        gap = f"unsupported gap {signed(top - bottom)}"
        label = gap if brief else f"{gap}  ({label})"
    axes.annotate(
        label.replace("-", "−"),
        (time, floor), (-5 if towards_left else 5, 3.5), textcoords="offset points",
        ha="right" if towards_left else "left", va="bottom", color=GAP, fontsize=8, zorder=6,
    )  # fmt: skip


def _activation(axes: Axes, video: EvidenceCurves) -> None:
    registers = np.arange(1, len(video.activation) + 1)
    strongest = video.activation == video.activation.max()
    axes.barh(registers, video.activation, height=0.72, color=np.where(strongest, ROUTED, "#B8C4C2"))
    axes.set_ylim(len(registers) + 0.6, 0.4)  # register 1 on top
    axes.set_yticks(registers if len(registers) <= 10 else registers[:: -(-len(registers) // 8)])
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("register")


def _verdict(correction: Correction) -> str:
    before, after = signed(correction.margin_before, 4), signed(correction.margin_after, 4)
    ranks = f"rank {correction.rank_before} → {correction.rank_after}"
    return f"{ranks}     margin over the best wrong video {before} → {after}".replace("-", "−")
