"""Blending a bank's blocks into one sequence, position by position."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.attention import AttentionBank, CrossAttention
from prvr.backbones.blocks.official import OfficialKey, affine, under
from prvr.dropout import dropout


class BankAggregation(nn.Module):
    """(K, B, L, D) → (B, L, D): a softmax over blocks at each position, shared by all channels.

    A weight token reads each block's output by cross-attention; two layers turn what it read into one logit per
    position and block. The token is given, (1, 1, D), or else the mean over blocks and over all L slots (padding
    included, as in the field's code).
    """

    def __init__(self, width: int, heads: int, length: int, dropout: float, temperature: float):
        super().__init__()
        self.temperature, self.dropout = temperature, dropout
        self.read = CrossAttention(width, heads, dropout)
        self.layer1 = nn.Linear(width, width)
        self.layer2 = nn.Linear(width, length)

    def forward(self, outputs: Tensor, key_mask: Tensor | None = None, token: Tensor | None = None) -> Tensor:
        weights = (self.logits(outputs, key_mask, token) / self.temperature).softmax(0)  # (K, B, L)
        return (weights[..., None] * outputs).sum(0)

    def logits(self, outputs: Tensor, key_mask: Tensor | None = None, token: Tensor | None = None) -> Tensor:
        blocks, batch, length, width = outputs.shape
        one = outputs.mean((0, 2)) if token is None else token.squeeze(1)  # (B, D) or (1, D)
        tokens = one.expand(blocks, batch, width).reshape(blocks * batch, 1, width)
        keys = length if key_mask is None else key_mask.shape[1]  # what is beyond the mask is padding
        mask = None if key_mask is None else key_mask.expand(blocks, batch, keys).reshape(blocks * batch, keys)
        read = self.read(tokens, outputs[:, :, :keys].reshape(blocks * batch, keys, width), mask)
        hidden = dropout(F.relu(self.layer1(read)), self.dropout, self.training)
        return self.layer2(hidden).view(blocks, batch, length)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = under("read", self.read.official_keys(f"{prefix}.ca"))
        return keys | affine("layer1", f"{prefix}.layer1") | affine("layer2", f"{prefix}.layer2")


class BlendedBank(nn.Module):
    """A bank of windowed attention blocks and their blend, (B, L, D) → (B, L, D)."""

    def __init__(
        self,
        width: int,
        heads: int,
        windows: Sequence[float | None],
        length: int,
        dropout: float,
        temperature: float,
        official_block: str,
    ):
        super().__init__()
        self.official_block = official_block  # what the authors call block k, after the encoder's own name
        self.bank = AttentionBank(width, heads, windows, length, dropout)
        self.aggregate = BankAggregation(width, heads, length, dropout, temperature)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, token: Tensor | None = None, key_bias: Tensor | None = None
    ) -> Tensor:
        return self.aggregate(self.bank(x, mask, key_bias=key_bias), mask, token)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        blocks = [f"{prefix}.{self.official_block}{k}" for k in range(self.bank.blocks)]
        return under("bank", self.bank.official_keys(blocks)) | under("aggregate", self.aggregate.official_keys(prefix))
