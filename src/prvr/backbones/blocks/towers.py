"""Towers: from word and frame features to the space they share. They are small and trainable, or left out."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from prvr.backbones.blocks.attention import DenseAttentionBank
from prvr.backbones.blocks.inputs import InputEmbedding, WordPooling
from prvr.backbones.blocks.official import OfficialKey, affine, under


class Text(NamedTuple):
    """A sentence as its words and as one vector."""

    words: Tensor  # (Q, L, D)
    vector: Tensor  # (Q, D)


class TextTower(nn.Module):
    """XML's query encoder: projection, positions, one attention layer, softmax pooling. (Q, L, Dq), (Q, L) → Text."""

    def __init__(self, in_width: int, width: int, heads: int, words: int, dropout: float):
        super().__init__()
        self.input = InputEmbedding(in_width, width, words, dropout)
        self.encoder = DenseAttentionBank(width, heads, [None], None, dropout)
        self.pool = WordPooling(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Text:
        states = self.encoder(self.input(tokens), mask)[0]
        return Text(states, self.pool(states, mask))

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = under("input.project", self.input.project.official_keys("query_input_proj"))
        keys |= under("input.position", self.input.position.official_keys("query_pos_embed"))
        keys |= under("encoder", self.encoder.official_keys("query_encoder"))
        return keys | under("pool", self.pool.official_keys("modular_vector_mapping"))


class GivenText(nn.Module):
    """No tower: words come from an image–text encoder, whose last word (CLIP's end of text) is the sentence."""

    def forward(self, tokens: Tensor, mask: Tensor) -> Text:
        return Text(tokens, last_word(tokens, mask))

    def official_keys(self) -> dict[str, OfficialKey]:
        return {}


class FrameTower(nn.Module):
    """``Linear(LayerNorm(x))``, without a ReLU so that cosines keep their sign. (V, M, Dv) → (V, M, D)."""

    def __init__(self, in_width: int, width: int):
        super().__init__()
        self.input_norm = nn.LayerNorm(in_width)
        self.linear = nn.Linear(in_width, width)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.linear.in_features:
            expected = self.linear.in_features
            raise ValueError(f"features are {x.shape[-1]} wide, but this model was made for {expected}")
        return self.linear(self.input_norm(x))

    def official_keys(self) -> dict[str, OfficialKey]:
        return affine("input_norm", "frame_input_proj.LayerNorm") | affine("linear", "frame_input_proj.net.1")


TowerKind = Literal["features", "none"]


class Towers(nn.Module):
    """A text tower and a frame tower into one space of width D; ``kind="none"`` where features share one already."""

    def __init__(
        self,
        kind: TowerKind,
        query_width: int,
        visual_width: int,
        width: int,
        heads: int,
        words: int,
        dropout: float,
    ):
        super().__init__()
        self.text: TextTower | GivenText = GivenText()
        self.frames: FrameTower | nn.Identity = nn.Identity()
        if kind == "features":
            self.text = TextTower(query_width, width, heads, words, dropout)
            self.frames = FrameTower(visual_width, width)

    def official_keys(self) -> dict[str, OfficialKey]:
        """XML's names (the authors have no such towers), by which the optimiser decides what to decay."""
        keys = under("text", self.text.official_keys())
        return keys | under("frames", self.frames.official_keys()) if isinstance(self.frames, FrameTower) else keys


def last_word(tokens: Tensor, mask: Tensor) -> Tensor:
    """The state at the last real word, (Q, L, D), (Q, L) → (Q, D); the first word where none is real.

    >>> last_word(torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    places = torch.arange(mask.shape[1], device=mask.device)
    last = (places * mask).amax(1).clamp(max=tokens.shape[1] - 1)
    return tokens.gather(1, last[:, None, None].expand(-1, 1, tokens.shape[2])).squeeze(1)
