"""Attention on the hyperboloid (Lorentz model, curvature −1): points, maps, and a bank of such blocks.

A point is ``(time, space)`` with ``−time² + ‖space‖² = −1``; the time coordinate comes first. Everything here runs in
float32 whatever the surrounding precision: the inner product subtracts numbers of nearly equal size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.attention import FeedForwardBank, linear_per_block, norm_per_block, stacked_keys
from prvr.backbones.blocks.official import OfficialKey, under
from prvr.backbones.blocks.windows import window_bank

_SMALLEST_SQUARE = 1e-9  # floor under squared lengths before a root
_LONGEST = 10.0  # tangent vectors are shortened to this before sinh
_LEAST_TIME = 1.1  # the time coordinate of a projected head never comes nearer to the origin's 1
_MIDPOINT_FLOOR = 1e-8
_MASKED = -1e18
_HEAD_SCALE, _LOGIT_SCALE = 2.3, math.sqrt(128.0)  # where the authors start


def clamped_parameter(parameter: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """Clamp a parameter in place and return it with the gradient of the identity.

    The authors clamp such parameters in place at every forward pass, so a bound never stops the gradient and the next
    update starts from the bound. The write goes past autograd, which would otherwise refuse a parameter that is used
    twice before a backward pass; it needs no look at the value, so a captured step can replay it.

    >>> p = torch.nn.Parameter(torch.tensor([0.3, -1.0]))
    >>> clamped_parameter(p, high=0.0).sum().backward(); p.tolist(), p.grad.tolist()
    ([0.0, -1.0], [1.0, 1.0])
    """
    inside = parameter.detach().clamp(low, high)
    through = parameter - parameter.detach()  # zero, but it carries the gradient
    parameter.data.copy_(inside)
    return inside + through


def exponential_map(tangent: Tensor) -> Tensor:
    """A tangent vector at the origin → the point it leads to, (..., d) → (..., 1 + d).

    >>> exponential_map(torch.tensor([0.0, 0.0]))
    tensor([1., 0., 0.])
    """
    length = tangent.square().sum(-1, keepdim=True).clamp(min=_SMALLEST_SQUARE).sqrt()
    space = length.clamp(max=_LONGEST).sinh() * tangent / length
    return torch.cat([(1 + space.square().sum(-1, keepdim=True)).sqrt(), space], -1)


def logarithmic_map(point: Tensor) -> Tensor:
    """The inverse of the exponential map: (..., 1 + d) → (..., d). At the origin itself the factor is 1, not 0/0."""
    time, space = point[..., :1].clamp(min=1.0), point[..., 1:]
    root = (time.square() - 1).clamp(min=_SMALLEST_SQUARE).sqrt()
    return (time + root).log() / root * space


def lorentz_product(a: Tensor, b: Tensor) -> Tensor:
    """``−a₀b₀ + Σ aᵢbᵢ`` of every row with every row: (..., L, n), (..., S, n) → (..., L, S)."""
    return torch.cat([-a[..., :1], a[..., 1:]], -1) @ b.transpose(-1, -2)


def midpoint(weights: Tensor, points: Tensor) -> Tensor:
    """Weighted centroid on the hyperboloid: (..., L, S), (..., S, n) → (..., L, n)."""
    mean = weights @ points
    square = mean[..., 1:].square().sum(-1, keepdim=True) - mean[..., :1].square()
    return mean / square.abs().clamp(min=_MIDPOINT_FLOOR).sqrt()


class LorentzBank(nn.Module):
    """K post-norm blocks with Lorentz attention side by side: (B, L, D) → (K, B, L, D).

    Each projects its input to ``inner`` non-negative numbers, carries them onto the hyperboloid, attends there by
    Lorentz distance, and comes back through a second projection; residual, feed-forward and norms are as elsewhere.
    """

    window: Tensor | None

    def __init__(
        self, width: int, inner: int, heads: int, windows: Sequence[float | None], length: int, dropout: float
    ):
        super().__init__()
        if (inner + 1) % heads:
            raise ValueError(f"hyperbolic width {inner} + 1 is not divisible by {heads} heads")
        blocks = len(windows)
        self.width, self.inner, self.heads, self.blocks, self.dropout = width, inner, heads, blocks, dropout
        self.input_norm_weight = nn.Parameter(torch.ones(blocks, width))
        self.input_norm_bias = nn.Parameter(torch.zeros(blocks, width))
        self.input_weight = nn.Parameter(torch.empty(blocks, inner, width))
        self.input_bias = nn.Parameter(torch.zeros(blocks, inner))
        self.log_scale = nn.Parameter(torch.full((blocks,), -0.5 * math.log(inner)))
        self.head_weight = nn.Parameter(torch.empty(blocks, 3, inner + 1, inner + 1))  # of queries, keys, values
        self.head_scale = nn.Parameter(torch.full((blocks, 3), _HEAD_SCALE))
        self.logit_scale = nn.Parameter(torch.full((blocks, 1), _LOGIT_SCALE))
        self.logit_bias = nn.Parameter(torch.zeros(blocks))
        self.output_norm_weight = nn.Parameter(torch.ones(blocks, inner))
        self.output_norm_bias = nn.Parameter(torch.zeros(blocks, inner))
        self.output_weight = nn.Parameter(torch.empty(blocks, width, inner))
        self.output_bias = nn.Parameter(torch.zeros(blocks, width))
        self.feed_forward = FeedForwardBank(width, blocks, dropout)
        self.register_buffer("window", window_bank(length, windows), persistent=False)  # (K, L, L) or None

    def initialise(self, std: float) -> None:
        for weight in (self.input_weight, self.head_weight, self.output_weight):
            nn.init.normal_(weight, std=std)
        self.feed_forward.initialise(std)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        return self.feed_forward(x, self.attend(x, key_mask))

    def attend(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        """The attention of every block, before residual and feed-forward: (B, L, D) → (K, B, L, D)."""
        entering = self._drop(norm_per_block(x, self.input_norm_weight, self.input_norm_bias))
        tangent = F.relu(linear_per_block(entering, self.input_weight, self.input_bias))  # (K, B, L, d)
        with torch.autocast(x.device.type, enabled=False):
            scale = clamped_parameter(self.log_scale, high=0.0).exp()[:, None, None, None]
            points = exponential_map(tangent.to(self.head_weight.dtype) * scale)
            mixed = self._mix(points, key_mask)
            back = logarithmic_map(mixed) / scale
        leaving = self._drop(norm_per_block(back, self.output_norm_weight, self.output_norm_bias))
        return F.relu(linear_per_block(leaving, self.output_weight, self.output_bias))

    def _mix(self, points: Tensor, key_mask: Tensor | None) -> Tensor:
        """Attention among points, (K, B, L, 1+d) → (K, B, L, 1+d).

        The result is the heads side by side; its first coordinate, the first head's time, is then used for all of them.
        """
        query, key, value = (self.to_heads(points, i) for i in range(3))  # each (K, B, H, L, n)
        bias, scale = self.logit_bias[:, None, None, None, None], self.logit_scale[:, :, None, None, None]
        logits = (2 + 2 * lorentz_product(query, key)) / scale + bias  # (K, B, H, L, L)
        if self.window is not None:
            logits = logits * self.window[:, None, None].to(logits.dtype)
        if key_mask is not None:
            logits = logits.masked_fill(~key_mask[:, None, None], _MASKED)
        return midpoint(logits.softmax(-1), value).transpose(2, 3).flatten(3)

    def to_heads(self, points: Tensor, which: int) -> Tensor:
        """Queries (0), keys (1) or values (2): each head a point again, (K, B, L, 1+d) → (K, B, H, L, n)."""
        blocks, batch, length, size = points.shape
        rows = self._drop(points).reshape(blocks, batch * length, size)
        moved = (rows @ self.head_weight[:, which].transpose(1, 2)).view(blocks, batch, length, self.heads, -1)
        time, space = moved[..., :1], moved[..., 1:]
        time = time.sigmoid() * self.head_scale[:, which].exp()[:, None, None, None, None] + _LEAST_TIME
        square = space.square().sum(-1, keepdim=True).clamp(min=_SMALLEST_SQUARE)  # a zero vector has no direction
        return torch.cat([time, space * ((time.square() - 1) / square).sqrt()], -1).transpose(2, 3)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def official_keys(self, prefixes: Sequence[str]) -> dict[str, OfficialKey]:
        """Keys of each stacked block, one prefix per block."""
        heads = [f"{b}.self.lorentz_multiattention" for b in prefixes]
        linears = ("linear_query", "linear_keys", "linear_values")
        keys: dict[str, OfficialKey] = {
            "log_scale": [f"{b}.self.scale_alpha" for b in prefixes],
            "head_weight": [[f"{h}.{name}.weight.weight" for name in linears] for h in heads],
            "head_scale": [[f"{h}.{name}.scale" for name in linears] for h in heads],
            "logit_scale": [f"{h}.scale" for h in heads],
            "logit_bias": [f"{h}.bias" for h in heads],
        }
        names = [
            (f"{side}{ours}", f"self.{side}_proj.{theirs}")
            for side in ("input", "output")
            for ours, theirs in (("_norm", "LayerNorm"), ("", "net.1"))
        ]
        return keys | stacked_keys(names, prefixes) | under("feed_forward", self.feed_forward.official_keys(prefixes))
