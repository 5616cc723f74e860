"""The variational sampler: a video's clips as one distribution (mean and log-variance)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.official import OfficialKey, affine, under

_POSITION_WIDTH = 32
_POOLING_TEMPERATURE = 0.1


class SortedPooling(nn.Module):
    """Generalised pooling: sort each channel over time, then a learned weighted sum of the sorted values.

    The weights come from positions alone (a small bidirectional GRU), so for a fixed length they are one vector.
    """

    positions: Tensor

    def __init__(self, length: int):
        super().__init__()
        self.gru = nn.GRU(_POSITION_WIDTH, _POSITION_WIDTH, bidirectional=True, batch_first=True)
        self.score = nn.Linear(_POSITION_WIDTH, 1, bias=False)
        self.register_buffer("positions", _sinusoid(length, _POSITION_WIDTH), persistent=False)

    def weights(self) -> Tensor:
        """(L,)"""
        both, _ = self.gru(self.positions[None])  # (1, L, 2·32)
        merged = both.view(1, -1, 2, _POSITION_WIDTH).mean(2)
        return (self.score(merged).view(-1) / _POOLING_TEMPERATURE).softmax(0)

    def forward(self, x: Tensor) -> Tensor:
        ranked = x.sort(dim=1, descending=True).values
        return torch.einsum("l,bld->bd", self.weights(), ranked)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        parts = [
            f"{kind}_l0{way}" for way in ("", "_reverse") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        keys: dict[str, OfficialKey] = {f"gru.{part}": f"{prefix}.gru.{part}" for part in parts}
        return keys | affine("score", f"{prefix}.linear", bias=False)


class AttentionPooling(nn.Module):
    """``softmax(w₂·tanh(w₁·x))`` over clips, then the weighted sum. (B, L, D) → (B, D)"""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(width, width // 2, bias=False)
        self.score = nn.Linear(width // 2, 1, bias=False)

    def weights(self, x: Tensor) -> Tensor:
        return self.score(torch.tanh(self.inner(x))).squeeze(-1).softmax(1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bl,bld->bd", self.weights(x), x)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        return affine("inner", f"{prefix}.w_1", bias=False) | affine("score", f"{prefix}.w_2", bias=False)


class VariationalSampler(nn.Module):
    """Mean (unit length) and log-variance of a video's latent, (B, L, D) → (B, D), (B, D).

    The log-variance never reaches a score: it only shapes training through the KL term.
    """

    def __init__(self, width: int, length: int):
        super().__init__()
        self.pool = SortedPooling(length)
        self.mean_attention, self.mean_linear = AttentionPooling(width), nn.Linear(width, width)
        self.mean_norm = nn.LayerNorm(width)
        self.variance_attention, self.variance_linear = AttentionPooling(width), nn.Linear(width, width)
        self.variance_pooled = nn.Linear(width, width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pooled = self.pool(x)
        mean = self.mean_norm(pooled + torch.sigmoid(self.mean_linear(self.mean_attention(x))))
        log_variance = self.variance_linear(self.variance_attention(x)) + self.variance_pooled(pooled)
        return F.normalize(mean, dim=-1), log_variance

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        mean, variance = f"{prefix}.pie_net_video", f"{prefix}.uncertain_net_video"
        keys = under("pool", self.pool.official_keys(f"{prefix}.gpo"))
        keys |= under("mean_attention", self.mean_attention.official_keys(f"{mean}.attention"))
        keys |= affine("mean_linear", f"{mean}.fc") | affine("mean_norm", f"{mean}.layer_norm")
        keys |= under("variance_attention", self.variance_attention.official_keys(f"{variance}.attention"))
        return keys | affine("variance_linear", f"{variance}.fc") | affine("variance_pooled", f"{variance}.fc2")


def _sinusoid(length: int, width: int) -> Tensor:
    """(L, W): even channels sine, odd channels cosine, frequencies 10000^(−2i/W)."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    table = torch.empty(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table.float()
