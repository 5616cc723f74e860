"""InternVideo2's video tower as its CLIP model uses it: frames of a window in, one vector out.

A plain vision transformer over the patches of all frames, with RMS norms, normalised queries and keys, and a learned
scale for each residual; attention pooling makes one vector of it. Parameters have the names of the published weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FRAMES = 8  # of a window
GRID = 16  # patches in each direction: 224 / 14 in the published sizes
_POOL_HEADS = 16
_HEADS = {1408: 16, 3200: 25}  # of the 1B and the 6B model; shapes do not show the number of heads
_HEAD_WIDTH = 64  # of other sizes


@dataclass(frozen=True)
class TowerSizes:
    """What the shapes of the weights say."""

    width: int
    depth: int
    hidden: int  # of the feed-forward parts
    patch: int  # pixels
    output: int

    @property
    def heads(self) -> int:
        return _HEADS.get(self.width, max(1, self.width // _HEAD_WIDTH))

    @property
    def side(self) -> int:
        """Of the pictures, in pixels."""
        return GRID * self.patch

    @property
    def fits(self) -> bool:
        """Whether there is something of everything, and heads divide the width."""
        some = min(self.width, self.hidden, self.patch, self.output) > 0
        return some and self.width % self.heads == 0 and self.width % _POOL_HEADS == 0


class InternVideo2Tower(nn.Module):
    """Windows (B, 3, 8, H, W) → vectors (B, D)."""

    def __init__(self, sizes: TowerSizes):
        super().__init__()
        width, patch = sizes.width, (1, sizes.patch, sizes.patch)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv3d(3, width, patch, patch)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + FRAMES * GRID**2, width))
        self.blocks = nn.ModuleList(_Block(sizes) for _ in range(sizes.depth))
        self.clip_projector = _AttentionPool(width, sizes.output)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.patch_embed["proj"](pixels).flatten(2).transpose(1, 2)  # (B, 8·GRID², width)
        x = torch.cat([self.cls_token.expand(len(patches), -1, -1), patches], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        pooled: Tensor = self.clip_projector(x)
        return pooled


class _Block(nn.Module):
    def __init__(self, sizes: TowerSizes):
        super().__init__()
        self.norm1, self.norm2 = _norm(sizes.width), _norm(sizes.width)
        self.attn = _Attention(sizes.width, sizes.heads)
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(sizes.width, sizes.hidden), "fc2": nn.Linear(sizes.hidden, sizes.width)}
        )
        self.ls1 = nn.ParameterDict({"gamma": torch.ones(sizes.width)})
        self.ls2 = nn.ParameterDict({"gamma": torch.ones(sizes.width)})

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x)) * self.ls1["gamma"]
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x)))) * self.ls2["gamma"]


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_norm, self.k_norm = _norm(width), _norm(width)  # over all heads together
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)  # (B, N, width) each
        found: Tensor = self.proj(_attend(self.q_norm(q), self.k_norm(k), v, self.heads))
        return found


class _AttentionPool(nn.Module):
    """The mean of all tokens asks, the tokens answer. (B, N, width) → (B, output)."""

    def __init__(self, width: int, output: int):
        super().__init__()
        self.norm1_q, self.norm1_k, self.norm1_v = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.cross_attn = _CrossAttention(width, output)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        found: Tensor = self.cross_attn(self.norm1_q(mean), self.norm1_k(x), self.norm1_v(x))
        return found[:, 0]


class _CrossAttention(nn.Module):
    def __init__(self, width: int, output: int):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in "qkv")
        self.q_bias, self.k_bias, self.v_bias = (nn.Parameter(torch.zeros(width)) for _ in "qkv")
        self.proj = nn.Linear(width, output)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = self.q(q) + self.q_bias, self.k(k) + self.k_bias, self.v(v) + self.v_bias
        found: Tensor = self.proj(_attend(q, k, v, _POOL_HEADS))
        return found


def _attend(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    q, k, v = (part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in (q, k, v))  # (B, heads, N, …)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def _norm(width: int) -> nn.RMSNorm:
    return nn.RMSNorm(width, eps=1e-6)
