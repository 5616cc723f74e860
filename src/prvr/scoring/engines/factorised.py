"""The torch engine: tiles of matrix products and a short tail, on any device.

Columns come first and queries last, ``(columns, D) @ (D, Q)``: maxima over tokens then run along whole rows of
queries, which vectorise. The log-sum-exp over registers is a small product (``trace.operator.routed_support``), and
padded slots need no mask: they repeat a real token.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.scoring.engines import simd
from prvr.scoring.engines.best_routes import best_routes, one_pass_pays
from prvr.scoring.engines.common import Queries, Scores, Tile, per_video, slices, video_slices
from prvr.scoring.engines.products import enough_columns, stored_products
from prvr.scoring.gallery import Gallery
from prvr.scoring.storage import Vectors
from prvr.scoring.workspace import Workspace
from prvr.trace import operator as op

QUERIES_PER_TILE = 1024
TILE_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}  # numbers in a tile's largest temporary
SINGLE_PAGES = 4096  # pages at a time for a few queries: products are small, so passes are long


class FactorisedEngine:
    """The torch engine. It keeps its buffers from tile to tile, so each thread needs its own engine."""

    def __init__(self, *, tile_elements: int | None = None, queries_per_tile: int = QUERIES_PER_TILE) -> None:
        """``tile_elements`` bounds the largest temporary of a tile; by default ``TILE_ELEMENTS`` of the device."""
        self.workspace = Workspace()
        self.tile_elements = tile_elements
        self.queries_per_tile = queries_per_tile
        self.one_pass = False  # ``best_routes`` by Numba: ``plan`` sees whether the work is worth it

    def plan(self, queries: int, gallery: Gallery) -> list[Tile]:
        step = min(queries, self.queries_per_tile)
        self.one_pass = one_pass_pays(queries, gallery)
        # For a few queries the largest temporary of a tile is not a product but the stored vectors turned into floats.
        widest = step if gallery.storage in ("fp32", "fp64") else max(step, gallery.width)
        elements = self.tile_elements or TILE_ELEMENTS.get(gallery.device.type, 1 << 24)
        pages = elements // max(1, widest * gallery.page)
        if simd.fits(queries, gallery):
            pages = SINGLE_PAGES
        # Videos outside, queries inside: a gallery on disk is read once.
        return [Tile(rows, videos) for videos in video_slices(gallery, pages) for rows in slices(queries, step)]

    def compute(self, queries: Queries, gallery: Gallery, tile: Tile) -> Scores:
        queries, gallery = queries[tile.queries], gallery[tile.videos]
        columns = enough_columns(queries.unit.T).contiguous()  # (D, Q)
        scale = F.pad(queries.scale, (0, columns.shape[1] - len(queries)), value=1.0)
        local = self._products("tokens", gallery.local, columns)  # (P, page, Q)
        base = per_video(local.amax(1), gallery) * gallery.weights.paged  # (V, Q)
        if gallery.fixed is not None:
            sizes = [count for _, count in gallery.weights.fixed]
            responses = torch.split(self._products("fixed", gallery.fixed, columns), sizes, 1)
            for (weight, _), response in zip(gallery.weights.fixed, responses, strict=True):
                base.add_(response.amax(1), alpha=weight)
        # Tokens that are their own keys are read once.
        direct = local.mul_(scale) if gallery.keys is gallery.local else None
        trace = self._evidence(columns * scale, gallery, direct)
        return Scores(base.T[: len(queries)], None if trace is None else trace.T[: len(queries)])

    def _evidence(self, projected: Tensor, gallery: Gallery, direct: Tensor | None) -> Tensor | None:
        """Projected unit queries (D, Q), and direct evidence (P, page, Q) where it is known already → (V, Q)."""
        if gallery.routes is None or gallery.keys is None or gallery.registers is None or gallery.values is None:
            return None
        routes, config, tau = gallery.routes, gallery.config, gallery.config.temperature
        # ``op.register_reach`` in place
        affinity = self._products("registers", gallery.registers, projected)  # a (V, R, Q)
        strongest = affinity.amax(1, keepdim=True)
        logits = affinity.sub_(strongest).div_(tau)
        precise = logits.to(routes.grounding.dtype)  # at low temperatures A leaves float32 just as B does
        reach = logits.exp_()  # A (V, R, Q)
        paths = reach if precise is logits else precise.exp_()
        # max_i d_i + γτ·log(A·B)_i, then the terms that are the same for every frame
        routed = self._products("tokens", gallery.keys, projected) if direct is None else direct  # d (P, page, Q)
        route = per_video(self._best(routed, routes.grounding, _of_pages(paths, gallery), gallery), gallery)
        route.add_((strongest.squeeze(1) + routes.ceiling[:, None]), alpha=config.routing_strength)
        # π = A/ΣA, and the sum cancels in the cosine
        along = (reach * self._products("values", gallery.values, projected)).sum(1)
        squared = ((routes.gram @ reach) * reach).sum(1)
        soft = op.soft_cosine(along, squared)
        activation = (reach / reach.sum(1, keepdim=True)).transpose(1, 2) if config.gate else reach.transpose(1, 2)
        return op.evidence_score(route, soft, activation, config.soft_weight, config.gate)

    def _best(self, direct: Tensor, grounding: Tensor, reach: Tensor, gallery: Gallery) -> Tensor:
        """max_i d_i + γτ·log(A·B)_i of each page: (P, page, Q), (P, R, page), (P, R, Q) → (P, Q)."""
        strength = gallery.config.routing_strength * gallery.config.temperature
        if self.one_pass:
            return best_routes(direct, grounding, reach, strength)
        return direct.add_(self._paths(grounding, reach).log_(), alpha=strength).amax(1)

    def _paths(self, grounding: Tensor, reach: Tensor) -> Tensor:
        """``A·B``, the sum over registers: (P, R, page), (P, R, Q) → (P, page, Q) in the precision of the grounding."""
        pages, registers, page = grounding.shape
        queries = reach.shape[2]
        out = self.workspace.empty("paths", (pages, page, queries), grounding)
        if queries > simd.MOST_QUERIES:
            return torch.bmm(grounding.transpose(1, 2), reach, out=out)
        out.zero_()
        for k in range(registers):  # for a query or two, thousands of tiny products cost more than a few long sums
            out.addcmul_(grounding[:, k, :, None], reach[:, k, None, :])
        return out

    def _products(self, name: str, vectors: Vectors, columns: Tensor) -> Tensor:
        return stored_products(vectors, columns, self.workspace, name)


def _of_pages(of_videos: Tensor, gallery: Gallery) -> Tensor:
    """Repeat each video's rows for its pages, (V, …) → (P, …)."""
    if gallery.local.shape[0] == len(gallery):
        return of_videos
    return of_videos.repeat_interleave(gallery.first_page.diff().to(of_videos.device), 0)
