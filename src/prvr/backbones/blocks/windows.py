"""Gaussian windows that multiply attention logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_NARROWEST = 0.01


def gaussian_window(length: int, width: float) -> Tensor:
    """(L, L): row i peaks just before column i, and its maximum is 1.

    Centres lie at ``i/L`` but positions at ``j/(L−1)``, so the peak of row i comes before column i by i/L of a slot.
    That is the field's formula; "cleaning it up" gives a different model.

    >>> gaussian_window(4, 2.0)[3].round(decimals=2)
    tensor([0.0000, 0.1800, 1.0000, 0.5700])
    """
    centres = torch.arange(length, dtype=torch.float64) / length
    positions = torch.linspace(0, 1, length, dtype=torch.float64) if length > 1 else torch.zeros(1, dtype=torch.float64)
    deviation = max(width, _NARROWEST) / 9
    window = torch.exp(-((positions[None, :] - centres[:, None]) ** 2) / (2 * deviation**2))
    return (window / window.amax(-1, keepdim=True)).float()


def window_bank(length: int, widths: Sequence[float | None]) -> Tensor | None:
    """One window per block, (K, L, L), all ones where a block has none; None where no block has one."""
    if all(width is None for width in widths):
        return None
    flat = torch.ones(length, length)
    return torch.stack([flat if width is None else gaussian_window(length, width) for width in widths])
