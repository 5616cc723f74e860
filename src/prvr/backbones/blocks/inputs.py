"""The inputs of a model: projection of raw features, and learned positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.official import OfficialKey, affine
from prvr.dropout import Dropout


class Projection(nn.Module):
    """``ReLU(Linear(dropout(LayerNorm(x))))``; the norm acts on the input's width."""

    def __init__(self, in_width: int, out_width: int, dropout: float):
        super().__init__()
        self.input_norm = nn.LayerNorm(in_width)
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(in_width, out_width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.linear(self.dropout(self.input_norm(x))))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        return affine("input_norm", f"{prefix}.LayerNorm") | affine("linear", f"{prefix}.net.1")


class PositionEmbedding(nn.Module):
    """``dropout(LayerNorm(x + P))`` with a learned table P, positions from 0."""

    def __init__(self, positions: int, width: int, dropout: float):
        super().__init__()
        self.table = nn.Embedding(positions, width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        length, known = x.shape[1], self.table.num_embeddings
        if length > known:
            raise ValueError(f"{length} tokens, but positions were learned for {known}: shorten or resample the input")
        return self.dropout(self.input_norm(x + self.table.weight[:length]))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        return {"table.weight": f"{prefix}.position_embeddings.weight"} | affine("input_norm", f"{prefix}.LayerNorm")


class InputEmbedding(nn.Module):
    """Projection then position: the first two steps of queries, clips and frames alike."""

    def __init__(self, in_width: int, width: int, positions: int, dropout: float):
        super().__init__()
        self.project = Projection(in_width, width, dropout)
        self.position = PositionEmbedding(positions, width, dropout)

    def forward(self, x: Tensor) -> Tensor:
        expected = self.project.linear.in_features
        if x.shape[-1] != expected:
            raise ValueError(f"features are {x.shape[-1]} wide, but this model was made for {expected}")
        return self.position(self.project(x))


class WordPooling(nn.Module):
    """Attention pooling over words: ``softmax(w·x)`` over the real ones, then the weighted sum. (Q, L, D) → (Q, D)."""

    def __init__(self, width: int):
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        energy = self.score(x).squeeze(-1).float()  # (Q, L)
        if mask is not None:
            energy = energy.masked_fill(~mask, torch.finfo(energy.dtype).min)
        weights = energy.softmax(-1)
        return torch.einsum("ql,qld->qd", weights, x.to(weights.dtype))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        return {"score.weight": f"{prefix}.weight"}
