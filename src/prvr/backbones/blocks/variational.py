"""Tokens as one Gaussian: the heads that give its mean and spread, and DreamPRVR's sampler of a video's clips."""

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
    """``softmax(w₂·tanh(w₁·x))`` over tokens, then the weighted sum. (B, L, D) → (B, D)"""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(width, width // 2, bias=False)
        self.score = nn.Linear(width // 2, 1, bias=False)

    def logits(self, x: Tensor) -> Tensor:
        """(…, D) → (…). A zero row has logit 0."""
        scores: Tensor = self.score(torch.tanh(self.inner(x)))
        return scores.squeeze(-1)

    def weights(self, x: Tensor) -> Tensor:
        return self.logits(x).softmax(1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bl,bld->bd", self.weights(x), x)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        return affine("inner", f"{prefix}.w_1", bias=False) | affine("score", f"{prefix}.w_2", bias=False)


class GaussianHeads(nn.Module):
    """Mean (unit length) and log-spread of a set of tokens, from what each head's attention reads and a pooled one."""

    def __init__(self, width: int):
        super().__init__()
        self.mean_attention, self.mean_linear = AttentionPooling(width), nn.Linear(width, width)
        self.mean_norm = nn.LayerNorm(width)
        self.variance_attention, self.variance_linear = AttentionPooling(width), nn.Linear(width, width)
        self.variance_pooled = nn.Linear(width, width)

    def describe(self, pooled: Tensor, read_by_mean: Tensor, read_by_variance: Tensor) -> tuple[Tensor, Tensor]:
        """(B, D) three times → mean and log-spread, (B, D) each."""
        mean = self.mean_norm(pooled + torch.sigmoid(self.mean_linear(read_by_mean)))
        return F.normalize(mean, dim=-1), self.variance_linear(read_by_variance) + self.variance_pooled(pooled)

    def head_keys(self, mean: str, variance: str) -> dict[str, OfficialKey]:
        """The authors' keys, from their names of both heads."""
        keys = under("mean_attention", self.mean_attention.official_keys(f"{mean}.attention"))
        keys |= affine("mean_linear", f"{mean}.fc") | affine("mean_norm", f"{mean}.layer_norm")
        keys |= under("variance_attention", self.variance_attention.official_keys(f"{variance}.attention"))
        return keys | affine("variance_linear", f"{variance}.fc") | affine("variance_pooled", f"{variance}.fc2")


class VariationalSampler(GaussianHeads):
    """Mean (unit length) and log-variance of a video's latent, (B, L, D) → (B, D), (B, D).

    The log-variance never reaches a score: it only shapes training through the KL term.
    """

    def __init__(self, width: int, length: int):
        super().__init__(width)
        self.pool = SortedPooling(length)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.describe(self.pool(x), self.mean_attention(x), self.variance_attention(x))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = under("pool", self.pool.official_keys(f"{prefix}.gpo"))
        return keys | self.head_keys(f"{prefix}.pie_net_video", f"{prefix}.uncertain_net_video")


def gaussian_of(
    heads: GaussianHeads, tokens: Tensor, read: Tensor, empty: Tensor, pooled: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and log-spread of sets of tokens among which there are empty rows, which are attended too, (V, D) each.

    Args:
        heads: of this side.
        tokens: (N, D) that all sets choose from, or (V, N, D) of each.
        read: which of them belong to a set, (V, N).
        empty: how many empty rows a set has besides, (V,). An empty row has logit 0 and adds nothing but mass.
        pooled: (V, D).
    """

    def attended(pool: AttentionPooling) -> Tensor:
        logits = pool.logits(tokens).expand(read.shape).masked_fill(~read, -torch.inf)
        shift = logits.amax(1).clamp(min=0).detach()
        weight = (logits - shift[:, None]).exp()
        mass = weight.sum(1) + empty * (-shift).exp()
        mixed = weight @ tokens if tokens.ndim == 2 else torch.einsum("vn,vnd->vd", weight, tokens)
        return mixed / mass.clamp(min=torch.finfo(mass.dtype).tiny)[:, None]

    return heads.describe(pooled, attended(heads.mean_attention), attended(heads.variance_attention))


def _sinusoid(length: int, width: int) -> Tensor:
    """(L, W): even channels sine, odd channels cosine, frequencies 10000^(−2i/W)."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    table = torch.empty(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table.float()
