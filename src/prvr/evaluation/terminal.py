"""Curves as blocks of text, for a terminal.

>>> print(terminal_chart({"direct": [0.1, 0.2, 0.9, 0.3], "support": [0.1, 0.1, 0.5, 0.8]}, width=8, height=2))
direct   0.90 ┤    ██
         0.10 ┤  ▂▂██▄▄
                   ▲ 0.90
support  0.90 ┤      ▆▆
         0.10 ┤    ████
                     ▲ 0.80
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from torch import Tensor

Curve: TypeAlias = Tensor | Sequence[float]

BLOCKS = " ▁▂▃▄▅▆▇█"


def terminal_chart(values: Curve | Mapping[str, Curve], width: int = 60, height: int = 4) -> str:
    """One small chart per curve, all on one scale, an arrow under each curve's highest point.

    A column shows the largest of the values that fall into it, so no peak is lost by squeezing a long curve into a
    narrow terminal. NaN (a padded frame) stays blank.

    Args:
        values: one curve (M,), or curves by name.
        width: columns of the drawing, without the labels.
        height: lines per curve.
    """
    curves = {
        name: _numbers(curve) for name, curve in (values if isinstance(values, Mapping) else {"": values}).items()
    }
    known = [value for curve in curves.values() for value in curve if math.isfinite(value)]
    if width < 1 or height < 1 or not known:
        raise ValueError(
            f"nothing to draw: {len(known)} finite values, width {width}, height {height}; each must be at least 1"
        )
    low, high = min(known), max(known)
    labels = max(len(name) for name in curves)
    return "\n".join(
        line
        for name, curve in curves.items()
        for line in _chart(name.ljust(labels), _fit(curve, width), low, high, height)
    )


def _numbers(curve: Curve) -> list[float]:
    return [float(value) for value in curve]


def _fit(curve: list[float], width: int) -> list[float]:
    """Stretch by repetition or squeeze by maximum to ``width`` columns; a column without a finite value holds NaN."""
    count = len(curve)
    columns = []
    for column in range(width):
        start = column * count // width
        stop = max(start + 1, (column + 1) * count // width)
        columns.append(max((v for v in curve[start:stop] if math.isfinite(v)), default=math.nan))
    return columns


def _chart(name: str, columns: list[float], low: float, high: float, height: int) -> list[str]:
    levels = 8 * height  # eighth blocks
    scale = levels / (high - low) if high > low else 0.0
    filled = [0 if math.isnan(value) else round((value - low) * scale) for value in columns]
    tags = [f"{high:.2f}", *[""] * (height - 1)]
    tags[-1] = f"{low:.2f}" if height > 1 else tags[-1]
    margin = max(len(f"{high:.2f}"), len(f"{low:.2f}"))
    lines = []
    for row in range(height):
        floor = 8 * (height - 1 - row)
        bars = "".join(BLOCKS[min(8, max(0, level - floor))] for level in filled)
        head = name if row == 0 else " " * len(name)
        lines.append(f"{head}{'  ' if name else ''}{tags[row].rjust(margin)} ┤{bars}".rstrip())
    finite = [value for value in columns if not math.isnan(value)]
    if finite:
        indent = len(name) + (2 if name else 0) + margin + 2 + columns.index(max(finite))
        lines.append(f"{' ' * indent}▲ {max(finite):.2f}")
    return lines
