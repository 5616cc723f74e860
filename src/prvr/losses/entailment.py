"""Partial order on a hyperboloid: a video spans a cone, and its queries should be inside it.

Points are kept as space parts only; ``time(z) = √(1/κ + ‖z‖²)`` on the hyperboloid of curvature −κ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from prvr.losses.labels import masked_mean

_FLOOR = 1e-8
_LONGEST = math.asinh(2.0**15)
_LEAST_RADIUS = 0.1  # nearer to the origin than this, a cone would be wider than a half space


def onto_hyperboloid(tangent: Tensor, curvature: Tensor) -> Tensor:
    """Exponential map at the origin, space part: (N, D), () → (N, D).

    >>> onto_hyperboloid(torch.tensor([[1.0, 0.0]]), torch.tensor(1.0))  # sinh 1
    tensor([[1.1752, 0.0000]])
    """
    length = curvature.sqrt() * torch.linalg.vector_norm(tangent, dim=-1, keepdim=True)
    return length.clamp(_FLOOR, _LONGEST).sinh() * tangent / length.clamp(min=_FLOOR)


def exterior_angle(apex: Tensor, point: Tensor, curvature: Tensor) -> Tensor:
    """The angle at the apex between the way on from the origin and the way to the point, (N, D), (N, D) → (N,).

    >>> x = torch.tensor([[1.0, 0.0]])
    >>> exterior_angle(x, 2 * x, torch.tensor(1.0)).round(decimals=2)  # straight on
    tensor([0.])
    """
    apex_time, point_time = _time(apex, curvature), _time(point, curvature)
    product = curvature * ((apex * point).sum(-1) - apex_time * point_time)
    spread = (product.square() - 1).clamp(min=_FLOOR).sqrt()
    radius = torch.linalg.vector_norm(apex, dim=-1)
    return _inside((point_time + product * apex_time) / (radius * spread + _FLOOR)).acos()


def half_aperture(apex: Tensor, curvature: Tensor) -> Tensor:
    """Half the opening of the apex's cone, the wider the nearer to the origin, (N, D) → (N,)."""
    radius = torch.linalg.vector_norm(apex, dim=-1)
    return _inside(2 * _LEAST_RADIUS / (curvature.sqrt() * radius + _FLOOR)).asin()


def partial_order(videos: Tensor, queries: Tensor, labels: Tensor, curvature: Tensor) -> Tensor:
    """``mean_n max(0, angle − half aperture)`` with each query's video as apex; points as space parts.

    (B, D), (N, D), (N,), () → ().
    """
    apex = videos[labels.clamp(min=0)]
    outside = (exterior_angle(apex, queries, curvature) - half_aperture(apex, curvature)).clamp(min=0)
    return masked_mean(outside, labels >= 0)


def _time(space: Tensor, curvature: Tensor) -> Tensor:
    return (1 / curvature + space.square().sum(-1)).sqrt()


def _inside(value: Tensor) -> Tensor:
    """Off ±1, where acos and asin have no finite slope. The authors' 1 − 1e-8 is exactly 1 in float32."""
    bound = 1 - max(_FLOOR, torch.finfo(value.dtype).eps)
    return value.clamp(-bound, bound)
