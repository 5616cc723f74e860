"""How different registers are."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class RegisterSpread:
    """Mean cosines of registers, raw and after their common mean was subtracted.

    Raw cosines near 1 mean that registers have collapsed onto one direction. Centred ones say whether what is left
    around it tells registers or videos apart: near 1 within a video, all its registers are still one vector.
    """

    within: float  # of two registers of one video
    between: float  # of the mean registers of two videos
    within_centred: float = 0.0
    between_centred: float = 0.0

    @staticmethod
    def of(registers: Tensor) -> RegisterSpread:
        """Of the registers of some videos, (V, R, D).

        >>> import torch
        >>> RegisterSpread.of(torch.tensor([[[2.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]))
        RegisterSpread(within=1.0, between=0.0, within_centred=1.0, between_centred=-1.0)
        """
        unit = F.normalize(registers.float(), dim=-1)
        return RegisterSpread(*_cosines(unit), *_cosines(F.normalize(unit - unit.mean((0, 1)), dim=-1)))


def _cosines(unit: Tensor) -> tuple[float, float]:
    """Mean cosine within a video, and between the mean registers of two videos."""
    videos, count, _ = unit.shape
    within = (unit.sum(1).square().sum(-1) - count) / max(count * (count - 1), 1)
    means = F.normalize(unit.mean(1), dim=-1)
    between = (means.sum(0).square().sum() - videos) / max(videos * (videos - 1), 1)
    return round(float(within.mean()), 6), round(float(between), 6)
