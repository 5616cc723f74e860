"""Evidence scores for many sets of anchors at once: the query–frame products are made once and shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import TraceConfig
from prvr.trace import operator as op

TILE_ELEMENTS = 16_000_000  # numbers in the largest temporary of a tile: 64 MB in float32


@torch.no_grad()
def sweep_anchors(
    queries: Tensor,
    videos: VideoTokens,
    anchor_sets: Mapping[str, Tensor],
    config: TraceConfig | None = None,
    *,
    tile_elements: int = TILE_ELEMENTS,
) -> dict[str, Tensor]:
    """S_trace with identity projections for each set of anchors (V, R, D): (Q, D) → {name: (Q, V)}."""
    config = config or TraceConfig()
    unit = F.normalize(queries, dim=-1)
    found: dict[str, list[Tensor]] = {name: [] for name in anchor_sets}
    for rows in _tiles(len(queries), videos, tile_elements):
        mask = videos.evidence_mask[rows]
        frames = op.projected_unit(op.clean(videos.evidence[rows], mask))
        direct = op.direct_evidence(unit, frames)  # (Q, v, M), shared by all sets
        direct = direct.masked_fill(~mask, torch.finfo(direct.dtype).min)
        for name, anchor in anchor_sets.items():
            found[name].append(_evidence(unit, direct, frames, mask, op.projected_unit(anchor[rows]), config))
    return {name: torch.cat(columns, 1) for name, columns in found.items()}


def _evidence(q: Tensor, direct: Tensor, frames: Tensor, mask: Tensor, anchor: Tensor, config: TraceConfig) -> Tensor:
    affinity = op.register_affinity(q, anchor)
    compatibility = op.grounding(anchor, frames)
    support = op.routed_support(affinity, compatibility, config.temperature)
    route = support.mul_(config.routing_strength).add_(direct).amax(-1)
    attended = op.attended_values(op.frame_attention(compatibility, mask, config.temperature), frames)
    activation = op.register_activation(affinity, config.temperature)
    soft = op.soft_score(q, activation, attended)
    return op.evidence_score(route, soft, activation, config.soft_weight, config.gate)


def _tiles(queries: int, videos: VideoTokens, elements: int) -> Iterator[slice]:
    step = max(1, elements // max(1, queries * videos.evidence.shape[1]))
    return (slice(start, start + step) for start in range(0, len(videos), step))
