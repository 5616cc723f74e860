"""A figure of words over time: which words of a query a video explains, and when."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from prvr.evaluation.figures import INK, LEFT, blank_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def word_figure(
    sentence: str,
    name: str,
    words: Mapping[str, Sequence[float]],
    explained: Mapping[str, float],
    moment: tuple[float, float] | None = None,
) -> Figure:
    """Words by frames, darker where a word fits a frame better.

    Args:
        sentence: the query.
        name: of the video.
        words: for each word, its evidence in every frame.
        explained: for each word, how well the video explains it.
        moment: annotated start and end as shares of the video, if they are known.
    """
    table = np.array(list(words.values()))
    with blank_figure(9.6, 1.3 + 0.24 * len(words)) as figure:
        axes = figure.add_axes((0.16, 0.22, 0.80, 0.58))
        axes.imshow(table, aspect="auto", cmap="Blues", interpolation="nearest")
        labels = [f"{word}  {explained[word]:.2f}" for word in words]
        axes.set_yticks(range(len(words)), labels=labels, fontsize=8, parse_math=False)
        axes.set(xlabel="frame")
        if moment is not None:
            for edge in moment:
                axes.axvline(edge * table.shape[1] - 0.5, color=INK, linewidth=1.0, linestyle="--")
        heading = textwrap.shorten(f"“{sentence}” in {name}", width=95, placeholder=" …")
        figure.text(LEFT, 0.96, heading, fontsize=10.5, fontweight="bold", va="top", parse_math=False)
    return figure
