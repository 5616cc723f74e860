"""Query-aware frames, and the heads that score them (CONQUER)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.bert import BertLayers
from prvr.backbones.blocks.inputs import Projection
from prvr.backbones.blocks.moments import Span
from prvr.backbones.blocks.official import OfficialKey, under

_NO_MOMENT = -1e4  # start and end logit of a padded frame


class TransformerSizes(NamedTuple):
    """Sizes that all transformers of the method share."""

    width: int
    heads: int
    inner_width: int
    layers: int
    dropout: float


class PairStates(NamedTuple):
    """The frames of a query–video pair after frames and words have attended to each other."""

    aware: Tensor  # (P, M, 4D)
    context: Tensor  # (P, M, D) the same after a transformer over time
    mask: Tensor  # (P, M)

    @property
    def features(self) -> Tensor:
        return torch.cat([self.aware, self.context], dim=-1)  # (P, M, 5D)


class TemporalEncoder(nn.Module):
    """Projection, then a transformer over time: (P, M, D_in) → (P, M, D)."""

    def __init__(self, in_width: int, sizes: TransformerSizes):
        super().__init__()
        self.project = Projection(in_width, sizes.width, sizes.dropout)
        self.encoder = BertLayers(*sizes)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(self.project(x), mask)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = under("project", self.project.official_keys(f"{prefix}.trans_linear"))
        return keys | under("encoder", self.encoder.official_keys(f"{prefix}.encoder"))


class VideoHead(nn.Module):
    """Query-aware frames → one score for the pair: their strongest response, channel by channel."""

    def __init__(self, sizes: TransformerSizes, head_width: int, masked_max: bool):
        super().__init__()
        self.masked_max = masked_max
        self.model = TemporalEncoder(5 * sizes.width, sizes)
        self.inner = nn.Linear(sizes.width, head_width, bias=False)
        self.outer = nn.Linear(head_width, 1, bias=False)

    def states(self, pairs: PairStates) -> Tensor:
        """Frames as the maximum over time sees them, (P, M, D)."""
        return self.model(pairs.features, pairs.mask)

    def forward(self, pairs: PairStates) -> Tensor:
        states = self.states(pairs)
        if self.masked_max:
            states = states.masked_fill(~pairs.mask[..., None], torch.finfo(states.dtype).min)
        return self.outer(F.relu(self.inner(states.amax(1)))).squeeze(-1)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys = under("model", self.model.official_keys(f"{prefix}.video_feature_modeling"))
        score = f"{prefix}.video_score_predictor"
        return keys | {"inner.weight": f"{score}.0.weight", "outer.weight": f"{score}.2.weight"}


class MomentHead(nn.Module):
    """Query-aware frames → start and end logits, (P, M) each; the end also reads what the start's layers found."""

    def __init__(self, sizes: TransformerSizes, head_width: int, kernel: int):
        super().__init__()
        width = sizes.width
        self.start_model, self.end_model = TemporalEncoder(5 * width, sizes), TemporalEncoder(2 * width, sizes)
        self.start_inner, self.end_inner = (
            nn.Conv1d(width, head_width, kernel, padding=kernel // 2, bias=False) for _ in range(2)
        )
        self.start_outer, self.end_outer = (nn.Conv1d(head_width, 1, 1, bias=False) for _ in range(2))

    def forward(self, pairs: PairStates) -> Span:
        start = self.start_model(pairs.features, pairs.mask)
        end = self.end_model(torch.cat([pairs.context, start], dim=-1), pairs.mask)
        starts = self.start_outer(F.relu(self.start_inner(start.transpose(1, 2)))).squeeze(1)
        ends = self.end_outer(F.relu(self.end_inner(end.transpose(1, 2)))).squeeze(1)
        return Span(starts.masked_fill(~pairs.mask, _NO_MOMENT), ends.masked_fill(~pairs.mask, _NO_MOMENT))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {}
        for ours, theirs, model in (("start", "begin", self.start_model), ("end", "end", self.end_model)):
            keys |= under(f"{ours}_model", model.official_keys(f"{prefix}.{theirs}_feature_modeling"))
            score = f"{prefix}.{theirs}_score_modeling.clip_score_predictor"
            keys |= {f"{ours}_inner.weight": f"{score}.0.weight", f"{ours}_outer.weight": f"{score}.2.weight"}
        return keys
