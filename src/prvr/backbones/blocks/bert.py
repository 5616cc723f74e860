"""BERT's encoder: attention with a GELU feed-forward after it, and typed inputs before it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.attention import DenseAttentionBank
from prvr.backbones.blocks.inputs import Projection
from prvr.backbones.blocks.official import OfficialKey, affine, under


class BertLayer(nn.Module):
    """``x₁ = LN(x + dense(heads(x)))``, ``LN(x₁ + W₂ GELU(W₁ x₁))``: (B, L, D) → (B, L, D)."""

    def __init__(self, width: int, heads: int, inner_width: int, dropout: float):
        super().__init__()
        self.attention = DenseAttentionBank(width, heads, [None], None, dropout)
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, width)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)[0]
        return self.norm(x + self.dropout(self.outer(F.gelu(self.inner(x)))))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = under("attention", self.attention.official_keys(f"{prefix}.attention"))
        keys |= affine("inner", f"{prefix}.intermediate.dense") | affine("outer", f"{prefix}.output.dense")
        return keys | affine("norm", f"{prefix}.output.LayerNorm")


class BertLayers(nn.Module):
    """A stack of BERT layers."""

    def __init__(self, width: int, heads: int, inner_width: int, layers: int, dropout: float):
        super().__init__()
        self.layers = nn.ModuleList(BertLayer(width, heads, inner_width, dropout) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {}
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, BertLayer)
            keys |= under(f"layers.{i}", layer.official_keys(f"{prefix}.layer.{i}"))
        return keys


class TypedInput(nn.Module):
    """Projection, then ``LN(x + type + position)``: (B, L, D_in) → (B, L, D)."""

    def __init__(self, in_width: int, width: int, positions: int, kind: int, dropout: float):
        super().__init__()
        self.kind = kind  # row of the type table: 0 video, 1 query
        self.project = Projection(in_width, width, dropout)
        self.position = nn.Embedding(positions, width)
        self.type_table = nn.Embedding(2, width)
        self.input_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        length, known, expected = x.shape[1], self.position.num_embeddings, self.project.linear.in_features
        if x.shape[-1] != expected:
            raise ValueError(f"features are {x.shape[-1]} wide, but this model was made for {expected}")
        if length > known:
            raise ValueError(f"{length} tokens, but positions were learned for {known}: shorten or resample the input")
        x = self.project(x) + self.type_table.weight[self.kind] + self.position.weight[:length]
        return self.dropout(self.input_norm(x))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        """Keys of an encoder whose projection is called ``linear`` and whose tables are ``transformer.embeddings``."""
        keys = under("project", self.project.official_keys(f"{prefix}.linear"))
        tables = f"{prefix}.transformer.embeddings"
        keys |= affine("position", f"{tables}.position_embeddings", bias=False)
        keys |= affine("type_table", f"{tables}.token_type_embeddings", bias=False)
        return keys | affine("input_norm", f"{tables}.LayerNorm")
