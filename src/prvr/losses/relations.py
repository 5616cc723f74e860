"""Relations between queries: those of a student should be the relations of its teacher."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_TINY = 1e-12
_AT_ONCE = 1 << 25  # angles held together: 128 MiB in float32


def distance_relation(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """Huber loss between all distances, each side divided by its mean distance, (N, D), (N, T), (N,) → ().

    The zero distance of a query with itself counts in the loss, but not in the mean distance. 0 below two queries.

    >>> line = torch.tensor([[0.0], [1.0], [3.0]])
    >>> distance_relation(line, 5 * line, torch.tensor([0, 0, 1]))  # a scale does not matter
    tensor(0.)
    """
    real = labels >= 0
    pairs = real[:, None] & real[None, :]
    error = F.smooth_l1_loss(_relative(student, pairs), _relative(teacher, pairs), reduction="none")
    return (error * pairs).sum() / pairs.sum().clamp(min=1)


def _relative(vectors: Tensor, pairs: Tensor) -> Tensor:
    """Distances over their mean, (N, D) → (N, N); 0 on the diagonal and for pairs that do not count."""
    square = vectors.square().sum(1)
    gap = (square[:, None] + square[None, :] - 2 * vectors @ vectors.T).clamp(min=_TINY).sqrt()
    others = pairs & ~torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    gap = gap * others
    return gap / (gap.sum() / others.sum().clamp(min=1)).clamp(min=_TINY)


def angle_relation(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """Huber loss between the cosines of all angles at query i between queries j and k, (N, D), (N, T), (N,) → ().

    Degenerate triples (two equal queries) have cosine 0 and count in the mean. Angles are computed in parts, so that
    no tensor of N³ numbers is kept.

    >>> corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> angle_relation(corner, corner.flip(1), torch.tensor([0, 0, 1]))  # a mirror image
    tensor(0.)
    """
    real = (labels >= 0).to(student.dtype)
    count = len(student)
    together = max(1, _AT_ONCE // max(1, count * count))
    total = student.new_zeros(())
    for start in range(0, count, together):
        rows = slice(start, start + together)
        if together >= count:
            return _angle_errors(student, teacher, real, rows) / real.sum().clamp(min=1) ** 3
        part = checkpoint(_angle_errors, student, teacher, real, rows, use_reentrant=False, preserve_rng_state=False)
        assert isinstance(part, Tensor)
        total = total + part
    return total / real.sum().clamp(min=1) ** 3


def _angle_errors(student: Tensor, teacher: Tensor, real: Tensor, rows: slice) -> Tensor:
    """The summed errors of the angles at some queries."""
    with torch.no_grad():
        expected = _angles(teacher, rows)
    errors = F.smooth_l1_loss(_angles(student, rows), expected, reduction="none")
    return torch.einsum("ijk,i,j,k->", errors, real[rows], real, real)


def _angles(vectors: Tensor, rows: slice) -> Tensor:
    """Cosines of the angles at some queries, (N, D) → (n, N, N)."""
    steps = vectors[None, :] - vectors[rows, None]  # (n, N, D)
    square = steps.square().sum(-1, keepdim=True)
    apart = square > _TINY**2  # equal queries have no direction, and pass no gradient
    unit = steps * torch.where(apart, square.clamp(min=_TINY**2).rsqrt(), 0.0)
    return unit @ unit.transpose(1, 2)
