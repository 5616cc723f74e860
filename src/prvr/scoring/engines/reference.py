"""The reference engine: the equations as they are written. Slow; the other engines are tested against it."""

from __future__ import annotations

import torch
from torch import Tensor

from prvr.scoring.engines.common import Queries, Scores, Tile, per_video, slices, video_slices
from prvr.scoring.gallery import Gallery
from prvr.scoring.storage import Vectors
from prvr.trace import operator as op

TILE_ELEMENTS = 4_000_000  # numbers in the (Q, P, R, page) paths of a tile


class ReferenceEngine:
    """Computes every intermediate in full."""

    def __init__(self, *, tile_elements: int = TILE_ELEMENTS) -> None:
        self.tile_elements = tile_elements

    def plan(self, queries: int, gallery: Gallery) -> list[Tile]:
        """A few queries at a time, then as many pages as the paths leave room for."""
        registers = 1 if gallery.routes is None else gallery.routes.grounding.shape[1]
        step = min(queries, 64)
        pages = self.tile_elements // max(1, step * registers * gallery.page)
        return [Tile(rows, videos) for videos in video_slices(gallery, pages) for rows in slices(queries, step)]

    def compute(self, queries: Queries, gallery: Gallery, tile: Tile) -> Scores:
        queries, gallery = queries[tile.queries], gallery[tile.videos]
        q, scale = queries.unit, queries.scale
        best = per_video(_products(q, gallery.local).amax(-1).T, gallery).T
        base = gallery.weights.paged * best
        if gallery.fixed is not None:
            sizes = [count for _, count in gallery.weights.fixed]
            responses = torch.split(_products(q, gallery.fixed), sizes, -1)
            for (weight, _), response in zip(gallery.weights.fixed, responses, strict=True):
                base = base + weight * response.amax(-1)
        if gallery.routes is None or gallery.keys is None or gallery.registers is None or gallery.values is None:
            return Scores(base, None)
        routes, config, tau = gallery.routes, gallery.config, gallery.config.temperature
        owner = torch.arange(len(gallery), device=q.device).repeat_interleave(gallery.first_page.diff().to(q.device))
        affinity = _products(q, gallery.registers) * scale[:, None, None]  # a (Q, V, R)
        compatibility = tau * routes.grounding.log() + routes.ceiling[owner, None, None]  # b (P, R, page)
        paths = affinity[:, owner, :, None] + compatibility  # (Q, P, R, page)
        support = tau * (paths / tau).logsumexp(2)
        direct = _products(q, gallery.keys) * scale[:, None, None]
        routed = op.routed_evidence(direct, support.to(direct.dtype), config.routing_strength)
        route = per_video(routed.amax(-1).T, gallery).T
        activation = op.register_activation(affinity, tau)
        values = _products(q, gallery.values) * scale[:, None, None]
        soft = op.soft_score_of_responses(values, activation, routes.gram)
        return Scores(base, op.evidence_score(route, soft, activation, config.soft_weight, config.gate))


def _products(queries: Tensor, vectors: Vectors) -> Tensor:
    """(Q, D) with (…, N, D) → (Q, …, N)."""
    return torch.einsum("qd,vnd->qvn", queries, vectors.restore(queries.dtype))
