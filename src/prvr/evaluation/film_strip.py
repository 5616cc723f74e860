"""Pictures of a video in a row, below the curves of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TIMES = 0.22  # inches below the pictures


class Still(NamedTuple):
    """A picture of a video."""

    image: Any  # (H, W, 3) uint8
    time: float  # seconds
    found: bool  # whether it is inside the moment that a search found


def draw_strip(figure: Figure, panel: Axes, stills: Sequence[Still], inches: float, colour: str) -> None:
    """Draw pictures with their times under a panel, as wide as it. A coloured frame marks those of the found moment."""
    from matplotlib.patches import Rectangle

    place, height = panel.get_position(), figure.get_figheight()
    axes = figure.add_axes((place.x0, _TIMES / height, place.width, (inches - _TIMES - 0.02) / height))
    axes.set_axis_off()
    axes.set_anchor("NW")
    high, wide = stills[0].image.shape[:2]
    gap = np.full((high, max(1, wide // 24), 3), 255, np.uint8)
    axes.imshow(np.concatenate([part for still in stills for part in (still.image, gap)][:-1], 1))
    for number, still in enumerate(stills):
        left = number * (wide + gap.shape[1]) - 0.5
        label: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 8, "color": "#666666"}
        if still.found:
            frame = Rectangle((left, -0.5), wide, high, fill=False, edgecolor=colour, linewidth=2.6, clip_on=False)
            axes.add_patch(frame)
            label |= {"color": colour, "fontweight": "bold"}
        axes.text(left + wide / 2, high * 1.04, f"{still.time:.1f} s", **label)


def strip_aspect(stills: Sequence[Still]) -> float:
    """Height of the pictures in a row, as a share of their width together."""
    high, wide = stills[0].image.shape[:2]
    return float(high / (wide * len(stills)))
