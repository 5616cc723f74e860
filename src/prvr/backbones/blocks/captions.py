"""Auxiliary captions of a video: frames that read them, and the captions as one vector."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.clip import multi_head
from prvr.backbones.blocks.official import OfficialKey, affine, under


class CaptionReader(nn.Module):
    """Frames attend to captions: (V, M, D), (V, T, D), (V, T) → (V, M, D).

    Half of Cap4Video's co-attention block; the other half (captions attend to frames) reaches no score and is left out.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dense = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)

    def context(self, frames: Tensor, captions: Tensor, mask: Tensor) -> Tensor:
        """What each frame gathers; nothing where a video has no caption."""
        read = multi_head(self.query(frames), self.key(captions), self.value(captions), self.heads, mask)
        return read * mask.any(1)[:, None, None].to(read.dtype)

    def forward(self, frames: Tensor, captions: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(self.dense(self.context(frames, captions, mask)) + frames)
        return self.norm2(self.outer(F.gelu(self.inner(x))) + x)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = affine("query", f"{prefix}.biattention.query1") | affine("key", f"{prefix}.biattention.key2")
        keys |= affine("value", f"{prefix}.biattention.value2")
        keys |= affine("dense", f"{prefix}.biOutput.dense1") | affine("norm1", f"{prefix}.biOutput.LayerNorm1")
        keys |= affine("inner", f"{prefix}.v_intermediate.dense") | affine("outer", f"{prefix}.v_output.dense")
        return keys | affine("norm2", f"{prefix}.v_output.LayerNorm")


class PostNormLayer(nn.Module):
    """The textbook encoder layer: heads, norm, ReLU feed-forward of inner width D, norm. (B, T, D) → (B, T, D)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        x = self.norm1(x + self.out(multi_head(query, key, value, self.heads, mask)))
        return self.norm2(x + self.outer(F.relu(self.inner(x))))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {
            f"qkv.{part}": f"{prefix}.self_attn.in_proj_{part}" for part in ("weight", "bias")
        }
        keys |= affine("out", f"{prefix}.self_attn.out_proj")
        keys |= affine("norm1", f"{prefix}.norm1") | affine("norm2", f"{prefix}.norm2")
        return keys | affine("inner", f"{prefix}.linear1") | affine("outer", f"{prefix}.linear2")


CaptionPooling = Literal["transformer", "mean", "first"]


class CaptionPool(nn.Module):
    """A video's captions as one unit vector: (V, T, D), (V, T) → (V, D); zero where it has none."""

    def __init__(self, width: int, heads: int, layers: int, captions: int):
        super().__init__()
        self.position = nn.Embedding(captions, width)
        self.layers = nn.ModuleList(PostNormLayer(width, heads) for _ in range(layers))

    def states(self, captions: Tensor, mask: Tensor) -> Tensor:
        """Captions with their places, after the transformer, (V, T, D)."""
        count, known = captions.shape[1], self.position.num_embeddings
        if count > known:
            raise ValueError(f"{count} captions per video, but this model was made for {known}: use fewer")
        x = captions + self.position.weight[:count]
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def forward(self, captions: Tensor, mask: Tensor, pooling: CaptionPooling = "transformer") -> Tensor:
        if pooling == "first":
            return F.normalize(captions[:, 0] * mask[:, :1].to(captions.dtype), dim=-1)
        x = self.states(captions, mask) if pooling == "transformer" else captions
        return F.normalize(x.masked_fill(~mask[..., None], 0.0).sum(1), dim=-1)

    def official_keys(self, positions: str, layers: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {"position.weight": f"{positions}.weight"}
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, PostNormLayer)
            keys |= under(f"layers.{i}", layer.official_keys(f"{layers}.{i}"))
        return keys
