"""Scoring a gallery: one contract, several engines.

``reference`` follows the equations pair by pair and keeps every intermediate; ``torch`` uses the factorised form in
tiles. Both give base score and evidence score; ``score`` fuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import Backbone, max_dot
from prvr.backbones.blocks.packing import join_queries
from prvr.scoring.gallery import Gallery
from prvr.tokens import QueryBatch
from prvr.trace import fuse, trace_score
from prvr.trace import operator as op

Engine: TypeAlias = Literal["auto", "reference", "torch"]
TILE_ELEMENTS = 16_000_000  # numbers in the largest temporary of a tile: 64 MB in float32


class Scores(NamedTuple):
    """Base and evidence scores side by side, (Q, V) each; ``trace`` is None for a gallery without TRACE."""

    base: Tensor
    trace: Tensor | None

    def final(self, fusion_weight: float) -> Tensor:
        return self.base if self.trace is None else fuse(self.base, self.trace, fusion_weight)


@torch.no_grad()
def score(queries: Tensor, gallery: Gallery, engine: Engine = "auto", fusion_weight: float | None = None) -> Tensor:
    """Final scores of every query against every video, (Q, D) → (Q, V)."""
    weight = gallery.config.fusion_weight if fusion_weight is None else fusion_weight
    return score_parts(queries, gallery, engine).final(weight)


@torch.no_grad()
def score_parts(queries: Tensor, gallery: Gallery, engine: Engine = "auto") -> Scores:
    """Base and evidence scores of every query against every video."""
    compute = _engine(engine)
    queries = queries.to(gallery.device, torch.promote_types(gallery.sets[0].tokens.dtype, torch.float32))
    columns = [compute(queries, gallery[tile]) for tile in _tiles(len(queries), gallery)]
    trace = [part.trace for part in columns if part.trace is not None]
    return Scores(torch.cat([part.base for part in columns], 1), torch.cat(trace, 1) if trace else None)


class Top(NamedTuple):
    """The best k videos of each query, best first; equal scores keep gallery order."""

    scores: Tensor  # (Q, k)
    indices: Tensor  # (Q, k)


@torch.no_grad()
def top_k(queries: Tensor, gallery: Gallery, k: int = 100, engine: Engine = "auto") -> Top:
    """The best k videos per query, streaming over the gallery: never more than k + one tile of scores per query."""
    k = min(k, len(gallery))
    weight = gallery.config.fusion_weight
    best = Top(queries.new_empty(len(queries), 0).float(), torch.empty(len(queries), 0, dtype=torch.long))
    best = Top(best.scores.to(gallery.device), best.indices.to(gallery.device))
    compute = _engine(engine)
    queries = queries.to(gallery.device, torch.promote_types(gallery.sets[0].tokens.dtype, torch.float32))
    for tile in _tiles(len(queries), gallery):
        fresh = compute(queries, gallery[tile]).final(weight)
        rows = torch.arange(tile.start, tile.start + fresh.shape[1], device=fresh.device).expand_as(fresh)
        pool = Top(torch.cat([best.scores.to(fresh.dtype), fresh], 1), torch.cat([best.indices, rows], 1))
        order = pool.scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
        best = Top(pool.scores.gather(1, order), pool.indices.gather(1, order))
    return best


@torch.no_grad()
def encode_queries(backbone: Backbone, batches: Iterable[QueryBatch]) -> Tensor:
    """Every query's vector, on the backbone's device, (Q, D); or its packed words (see ``blocks.packing``)."""
    was_training = backbone.training
    backbone.eval()
    device = next(backbone.parameters()).device
    moved = (batch.to(device) for batch in batches)
    vectors = join_queries([backbone.encode_queries(batch.tokens, batch.mask).float() for batch in moved])
    backbone.train(was_training)
    return vectors


def _reference(queries: Tensor, gallery: Gallery) -> Scores:
    unit = F.normalize(queries, dim=-1)
    cosines = [weight * torch.einsum("qd,vnd->qvn", unit, tokens).amax(-1) for weight, tokens in gallery.sets]
    base = torch.stack(cosines).sum(0)
    if gallery.factors is None:
        return Scores(base, None)
    factors, config = gallery.factors, gallery.config
    q = op.unit(queries, gallery.query_projection)
    affinity = op.register_affinity(q, factors.registers)
    paths = affinity[..., None] + factors.compatibility  # (Q, V, R, M): the equation as it is written
    support = config.temperature * (paths / config.temperature).logsumexp(2)
    routed = op.routed_evidence(op.direct_evidence(q, factors.frames), support, config.routing_strength)
    route, _ = op.concentrate(routed, factors.frame_mask)
    activation = op.register_activation(affinity, config.temperature)
    soft = F.cosine_similarity(q[:, None], torch.einsum("qvr,vrd->qvd", activation, factors.attended), dim=-1)
    return Scores(base, op.evidence_score(route, soft, activation, config.soft_weight, config.gate))


def _factorised(queries: Tensor, gallery: Gallery) -> Scores:
    unit = F.normalize(queries, dim=-1)
    base = torch.stack([weight * max_dot(unit, tokens) for weight, tokens in gallery.sets]).sum(0)
    if gallery.factors is None:
        return Scores(base, None)
    projections = {} if gallery.query_projection is None else {"query": gallery.query_projection}
    return Scores(base, trace_score(queries, gallery.factors, projections, gallery.config))


_ENGINES: dict[str, Callable[[Tensor, Gallery], Scores]] = {"reference": _reference, "torch": _factorised}


def _engine(name: Engine) -> Callable[[Tensor, Gallery], Scores]:
    chosen = "torch" if name == "auto" else name
    if chosen not in _ENGINES:
        raise ValueError(f"unknown engine {name!r}; there are: auto, {', '.join(_ENGINES)}")
    return _ENGINES[chosen]


def _tiles(queries: int, gallery: Gallery) -> Iterable[slice]:
    """Slices of videos whose (Q, V, N) products stay within the element budget."""
    longest = max(s.tokens.shape[1] for s in gallery.sets)
    step = max(1, TILE_ELEMENTS // max(1, queries * longest))
    return (slice(start, min(start + step, len(gallery))) for start in range(0, len(gallery), step))
