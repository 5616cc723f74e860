"""Gaussian windows that multiply attention logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_NARROWEST = 0.01


def gaussian_window(length: int, width: float, device: torch.device | None = None) -> Tensor:
    """(L, L): row i peaks just before column i, and its maximum is 1.

    Centres lie at ``i/L`` but positions at ``j/(L−1)``, so the peak of row i comes before column i by i/L of a slot.
    That is the field's formula; "cleaning it up" gives a different model.

    >>> gaussian_window(4, 2.0)[3].round(decimals=2)
    tensor([0.0000, 0.1800, 1.0000, 0.5700])
    """
    centres = torch.arange(length, dtype=torch.float64, device=device) / length
    positions = torch.arange(length, dtype=torch.float64, device=device) / max(1, length - 1)
    deviation = max(width, _NARROWEST) / 9
    exponent = (positions[None, :] - centres[:, None]) ** 2 / (2 * deviation**2)
    # Shifted before the exponential: a narrow window over a few slots would be 0/0 otherwise.
    return torch.exp(exponent.amin(-1, keepdim=True) - exponent).float()


def window_bank(length: int, widths: Sequence[float | None], device: torch.device | None = None) -> Tensor | None:
    """One window per block, (K, L, L), all ones where a block has none; None where no block has one."""
    if all(width is None for width in widths):
        return None
    flat = torch.ones(length, length, device=device)
    return torch.stack([flat if width is None else gaussian_window(length, width, device) for width in widths])


def parse_widths(widths: Sequence[float]) -> list[float | None]:
    """Parse the widths of a configuration, where 0 means no window.

    >>> parse_widths([0, 0.5])
    [None, 0.5]
    """
    return [width or None for width in widths]


def format_widths(windows: Sequence[float | None]) -> tuple[float, ...]:
    """The inverse of ``parse_widths``."""
    return tuple(width or 0.0 for width in windows)
