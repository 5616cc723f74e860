"""Daubechies-4 wavelets of one signal, symmetric at its ends: which part of it belongs to which time scale."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The scaling filter with four vanishing moments (eight taps), Daubechies (1992), table 6.1, in analysis order.
_LOW = (
    -0.010597401784997278, 0.032883011666982945, 0.030841381835986965, -0.18703481171888114,
    -0.02798376941698385, 0.6308807679295904, 0.7148465705525415, 0.23037781330885523,
)  # fmt: skip
_TAPS = len(_LOW)


def levels(length: int) -> int:
    """How many levels a signal allows: the filter must fit into what is left.

    >>> [levels(n) for n in (3, 13, 14, 28, 1000)]
    [0, 0, 1, 2, 7]
    """
    return max(0, int(math.log2(length / (_TAPS - 1)))) if length >= _TAPS - 1 else 0


def details(signal: Tensor) -> list[Tensor]:
    """The part of a signal (n,) at each time scale, finest first: as many (n,) as ``levels(n)``.

    Added to the coarsest approximation, they give the signal back.
    """
    found, sizes = [], []
    approximation = signal
    for _ in range(levels(len(signal))):
        sizes.append(len(approximation))
        approximation, detail = _analyse(approximation)
        part = _synthesise(torch.zeros_like(detail), detail)[: sizes[-1]]
        for size in reversed(sizes[:-1]):
            part = _synthesise(part, torch.zeros_like(part))[:size]
        found.append(part)
    return found


def _filters(like: Tensor) -> tuple[Tensor, Tensor]:
    """Analysis filters, low and high."""
    low = like.new_tensor(_LOW)
    sign = like.new_tensor([-1.0, 1.0] * (_TAPS // 2))
    return low, sign * low.flip(0)


def _analyse(signal: Tensor) -> tuple[Tensor, Tensor]:
    """One step down: (n,) → approximation and detail, ((n + 7) // 2,) each."""
    count = len(signal)
    place = torch.arange(1 - _TAPS, count + _TAPS - 1, device=signal.device) % (2 * count)
    mirrored = signal[torch.where(place >= count, 2 * count - 1 - place, place)]
    windows = mirrored.unfold(0, _TAPS, 1)[1::2].flip(1)  # convolution runs backwards
    low, high = _filters(signal)
    return windows @ low, windows @ high


def _synthesise(approximation: Tensor, detail: Tensor) -> Tensor:
    """One step up: (m,), (m,) → (2m − 6,)."""
    low, high = (each.flip(0) for each in _filters(detail))  # orthogonal: the inverse is the transpose
    length = 2 * len(detail) + _TAPS - 1
    total = detail.new_zeros(length)
    for coefficients, taps in ((approximation, low), (detail, high)):
        for tap, weight in enumerate(taps):
            total[tap : tap + 2 * len(detail) : 2] += weight * coefficients
    return total[_TAPS - 2 : 2 * len(detail)]
