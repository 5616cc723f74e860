"""Attention: a bank of parallel blocks with stacked weights, and cross-attention from a few tokens.

All blocks of a bank read the same input, so one matrix product gives every block's queries, keys and values, and the
feed-forwards are one batched product. A single block is a bank of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.official import OfficialKey, affine, under
from prvr.backbones.blocks.windows import window_bank
from prvr.dropout import dropout

MASKED_LOGIT = -10_000.0  # the field's value; far below any logit, and representable in bf16


class ParallelAttention(nn.Module):
    """The attention of K blocks side by side, up to the concatenated heads: (B, L, D) → (K, B, L, D).

    There is no output projection after the heads. A block's Gaussian window multiplies its logits before the mask is
    added; windows are prepared for sequences of ``length`` and computed again for one of another length. Registers are
    extra keys and values: they are never damped by a window and produce no output row. A key mask may be shorter than
    the sequence: positions beyond it are padding, and are not even made into keys. A key bias, (B, Lk), is added to
    the logits after the window.
    """

    window: Tensor | None

    def __init__(self, width: int, heads: int, windows: Sequence[float | None], length: int | None, dropout: float):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not divisible by {heads} heads")
        blocks = len(windows)
        self.width, self.heads, self.blocks, self.dropout = width, heads, blocks, dropout
        self.windows = tuple(windows)
        self.qkv_weight = nn.Parameter(torch.empty(blocks, 3, width, width))
        self.qkv_bias = nn.Parameter(torch.zeros(blocks, 3, width))
        window = window_bank(length, windows) if length is not None else None
        self.register_buffer("window", window, persistent=False)  # (K, L, L) or None

    def attend(
        self, x: Tensor, key_mask: Tensor | None, registers: Tensor | None, key_bias: Tensor | None = None
    ) -> Tensor:
        """The concatenated heads of every block, before residual and feed-forward: (B, L, D) → (K, B, L, D)."""
        batch, length = x.shape[:2]
        keys = length if key_mask is None else key_mask.shape[1]
        read = x[:, :keys] if registers is None else torch.cat([x[:, :keys], registers.to(x.dtype)], 1)  # (B, Lk+R, D)
        depth = self.width // self.heads
        scale = 1 / math.sqrt(depth)  # on the small side of the product: the weights, not the logits
        query = F.linear(x, scale * self.qkv_weight[:, 0].flatten(0, 1), scale * self.qkv_bias[:, 0].flatten())
        pairs = F.linear(read, self.qkv_weight[:, 1:].flatten(0, 2), self.qkv_bias[:, 1:].flatten())
        query = query.view(batch, length, self.blocks, self.heads, depth).permute(0, 2, 3, 1, 4)  # (B, K, H, L, dh)
        pairs = pairs.view(batch, read.shape[1], self.blocks, 2, self.heads, depth)
        key, value = pairs.permute(3, 0, 2, 4, 1, 5)  # each (B, K, H, Lk+R, dh)
        logits = query @ key.transpose(-1, -2)  # (B, K, H, L, Lk+R)
        extra = read.shape[1] - keys
        window = self._window_over(length, logits.device)
        if window is not None:
            window = F.pad(window[..., :keys], (0, extra), value=1.0)[:, None].to(logits.dtype)
        if key_mask is not None:
            penalty = F.pad(MASKED_LOGIT * (~key_mask).to(logits.dtype), (0, extra))[:, None, None, None, :]
            logits = logits + penalty if window is None else torch.addcmul(penalty, logits, window)
        elif window is not None:
            logits = logits * window
        if key_bias is not None:
            logits = logits + F.pad(key_bias.to(logits.dtype), (0, extra))[:, None, None, None, :]
        mixed = self._drop(logits.softmax(-1)).to(value.dtype) @ value  # (B, K, H, L, dh)
        return mixed.permute(1, 0, 3, 2, 4).reshape(self.blocks, batch, length, self.width)

    def _window_over(self, length: int, device: torch.device) -> Tensor | None:
        if self.window is not None and self.window.shape[-1] == length:
            return self.window
        return window_bank(length, self.windows, device)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)

    def official_keys(self, prefixes: str | Sequence[str]) -> dict[str, OfficialKey]:
        """Keys of each stacked block; one prefix per block (or a single one for a bank of one)."""
        blocks = _as_list(prefixes)
        return {
            f"qkv_{part}": [[f"{b}.self.{n}.{part}" for n in ("query", "key", "value")] for b in blocks]
            for part in ("weight", "bias")
        }


class FeedForwardBank(nn.Module):
    """The second half of K post-norm blocks: ``x₁ = LN₁(x + attended)``, ``out = LN₂(x₁ + FFN(x₁))``.

    The FFN is four times as wide inside. (B, L, D), (K, B, L, D) → (K, B, L, D)
    """

    def __init__(self, width: int, blocks: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        self.norm1_weight = nn.Parameter(torch.ones(blocks, width))
        self.norm1_bias = nn.Parameter(torch.zeros(blocks, width))
        self.ffn1_weight = nn.Parameter(torch.empty(blocks, 4 * width, width))
        self.ffn1_bias = nn.Parameter(torch.zeros(blocks, 4 * width))
        self.ffn2_weight = nn.Parameter(torch.empty(blocks, width, 4 * width))
        self.ffn2_bias = nn.Parameter(torch.zeros(blocks, width))
        self.norm2_weight = nn.Parameter(torch.ones(blocks, width))
        self.norm2_bias = nn.Parameter(torch.zeros(blocks, width))

    def initialise(self, std: float) -> None:
        for weight in (self.ffn1_weight, self.ffn2_weight):
            nn.init.normal_(weight, std=std)

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        x1 = norm_per_block(x + self._drop(attended), self.norm1_weight, self.norm1_bias)
        inner = self._drop(F.relu(linear_per_block(x1, self.ffn1_weight, self.ffn1_bias)))
        outer = linear_per_block(inner, self.ffn2_weight, self.ffn2_bias)
        return norm_per_block(x1 + self._drop(outer), self.norm2_weight, self.norm2_bias)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)

    def official_keys(self, prefixes: str | Sequence[str]) -> dict[str, OfficialKey]:
        names = (("norm1", "norm1"), ("ffn1", "output.layer1"), ("ffn2", "output.layer2"), ("norm2", "norm2"))
        return stacked_keys(names, prefixes)


class AttentionBank(ParallelAttention):
    """K post-norm transformer blocks side by side, attention then feed-forward: (B, L, D) → (K, B, L, D)."""

    def __init__(self, width: int, heads: int, windows: Sequence[float | None], length: int | None, dropout: float):
        super().__init__(width, heads, windows, length, dropout)
        self.feed_forward = FeedForwardBank(width, self.blocks, dropout)

    def initialise(self, std: float) -> None:
        nn.init.normal_(self.qkv_weight, std=std)
        self.feed_forward.initialise(std)

    def forward(
        self,
        x: Tensor,
        key_mask: Tensor | None = None,
        registers: Tensor | None = None,
        key_bias: Tensor | None = None,
    ) -> Tensor:
        return self.feed_forward(x, self.attend(x, key_mask, registers, key_bias))

    def official_keys(self, prefixes: str | Sequence[str]) -> dict[str, OfficialKey]:
        return super().official_keys(prefixes) | under("feed_forward", self.feed_forward.official_keys(prefixes))


class DenseAttentionBank(ParallelAttention):
    """K attention layers side by side, each ``LN(x + dense(attention(x)))``: (B, L, D) → (K, B, L, D).

    The field's older layer (MS-SL, GMMFormer): an output projection, and no feed-forward.
    """

    def __init__(self, width: int, heads: int, windows: Sequence[float | None], length: int | None, dropout: float):
        super().__init__(width, heads, windows, length, dropout)
        self.dense_weight = nn.Parameter(torch.empty(self.blocks, width, width))
        self.dense_bias = nn.Parameter(torch.zeros(self.blocks, width))
        self.norm_weight = nn.Parameter(torch.ones(self.blocks, width))
        self.norm_bias = nn.Parameter(torch.zeros(self.blocks, width))

    def initialise(self, std: float) -> None:
        for weight in (self.qkv_weight, self.dense_weight):
            nn.init.normal_(weight, std=std)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        attended = self.attend(x, key_mask, None)  # (K, B, L, D)
        dense = linear_per_block(attended, self.dense_weight, self.dense_bias)
        return norm_per_block(x + self._drop(dense), self.norm_weight, self.norm_bias)

    def official_keys(self, prefixes: str | Sequence[str]) -> dict[str, OfficialKey]:
        names = (("dense", "output.dense"), ("norm", "output.LayerNorm"))
        return super().official_keys(prefixes) | stacked_keys(names, prefixes)


class CrossAttention(nn.Module):
    """A few tokens t (B, T, D) read a sequence x (B, L, D): residual on t, feed-forward of inner width D. → (B, T, D)

    With few tokens it is cheaper to carry the query through the key projection than to project every key:
    ``q·(W x + b) = (Wᵀq)·x + q·b``; and likewise to average x before the value projection.
    """

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.width, self.heads, self.dropout = width, heads, dropout
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm1 = nn.LayerNorm(width)
        self.ffn1 = nn.Linear(width, width)
        self.ffn2 = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        x1 = self.norm1(tokens + self._drop(self.attend(tokens, x, key_mask)))
        return self.norm2(x1 + self._drop(self.ffn2(self._drop(F.relu(self.ffn1(x1))))))

    def attend(self, tokens: Tensor, x: Tensor, key_mask: Tensor | None) -> Tensor:
        """The concatenated heads, before residual and feed-forward: (B, T, D), (B, L, D) → (B, T, D)."""
        batch, count = tokens.shape[:2]
        depth = self.width // self.heads
        query = self.query(tokens).view(batch, count, self.heads, depth) / math.sqrt(depth)
        key_weight = self.key.weight.view(self.heads, depth, self.width)
        carried = torch.einsum("bthe,hed->bthd", query, key_weight.to(query.dtype))  # (B, T, H, D)
        shift = torch.einsum("bthe,he->bth", query, self.key.bias.view(self.heads, depth).to(query.dtype))
        logits = (
            carried.flatten(1, 2) @ x.to(carried.dtype).transpose(1, 2) + shift.flatten(1)[..., None]
        )  # (B, T·H, L)
        if key_mask is not None:
            logits = logits + MASKED_LOGIT * (~key_mask).to(logits.dtype)[:, None, :]
        weights = self._drop(logits.softmax(-1))
        mixed = (weights.to(x.dtype) @ x).view(batch, count, self.heads, self.width)
        value_weight = self.value.weight.view(self.heads, depth, self.width).to(mixed.dtype)
        mass = weights.sum(-1).view(batch, count, self.heads, 1)  # 1, except for dropout on the weights
        value = torch.einsum("bthd,hed->bthe", mixed, value_weight) + mass * self.value.bias.view(self.heads, depth)
        return value.reshape(batch, count, self.width)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {}
        for name in ("query", "key", "value"):
            keys |= affine(name, f"{prefix}.self.{name}")
        keys |= affine("ffn1", f"{prefix}.output.layer1") | affine("ffn2", f"{prefix}.output.layer2")
        return keys | affine("norm1", f"{prefix}.norm1") | affine("norm2", f"{prefix}.norm2")


def norm_per_block(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm with one affine per block, (K, B, L, D) with (K, D)."""
    return torch.addcmul(bias[:, None, None], F.layer_norm(x, weight.shape[-1:]), weight[:, None, None])


def linear_per_block(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One linear layer per block as one batched product, (K, B, L, I) with (K, O, I) → (K, B, L, O)."""
    blocks, batch, length, width = x.shape
    rows = torch.baddbmm(bias[:, None], x.reshape(blocks, batch * length, width), weight.transpose(1, 2))
    return rows.view(blocks, batch, length, -1)


def stacked_keys(names: Sequence[tuple[str, str]], prefixes: str | Sequence[str]) -> dict[str, OfficialKey]:
    """``ours_weight`` → each block's ``theirs.weight``, and likewise biases."""
    return {
        f"{ours}_{part}": [f"{b}.{theirs}.{part}" for b in _as_list(prefixes)]
        for part in ("weight", "bias")
        for ours, theirs in names
    }


def _as_list(prefixes: str | Sequence[str]) -> list[str]:
    return [prefixes] if isinstance(prefixes, str) else list(prefixes)
