"""Scoring a gallery with one of three engines.

``reference`` follows the equations and keeps every intermediate; ``torch`` works in tiles on any device; ``triton``
computes base and evidence in one pass on a CUDA device. All return base scores and evidence scores; ``score`` fuses
them.
"""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from prvr.scoring.engines.common import Scores, ScoringEngine, cut_to, prepare_queries
from prvr.scoring.engines.factorised import FactorisedEngine
from prvr.scoring.engines.fused import FusedEngine, fused_obstacle
from prvr.scoring.engines.reference import ReferenceEngine
from prvr.scoring.gallery import Gallery
from prvr.scoring.graphs import FEW
from prvr.scoring.top import Top, TopKeeper

__all__ = ["Engine", "Scores", "ScoringEngine", "Top", "score", "score_parts", "top_k"]

Engine: TypeAlias = Literal["auto", "reference", "torch", "triton"]

TOP_K_SCORES = 1 << 22  # scores that ``top_k`` ranks at a time: about 100 MB with their temporaries


@torch.no_grad()
def score(
    queries: Tensor, gallery: Gallery, engine: Engine | ScoringEngine = "auto", fusion_weight: float | None = None
) -> Tensor:
    """Final scores of every query against every video, (Q, D) → (Q, V)."""
    weight = gallery.config.fusion_weight if fusion_weight is None else fusion_weight
    return score_parts(queries, gallery, engine).final(weight)


@torch.no_grad()
def score_parts(queries: Tensor, gallery: Gallery, engine: Engine | ScoringEngine = "auto") -> Scores:
    """Base and evidence scores of every query against every video.

    ``engine`` is a name, or an engine object whose buffers are used again.
    """
    chosen, prepared = choose(engine, gallery), prepare_queries(queries, gallery)
    tiles, shape = chosen.plan(len(queries), gallery), (len(queries), len(gallery))
    if len(tiles) == 1:
        return chosen.compute(prepared, gallery, tiles[0])
    base = torch.empty(shape, dtype=prepared.unit.dtype, device=gallery.device)
    trace = None if gallery.routes is None else torch.empty_like(base)
    for tile in tiles:
        part = chosen.compute(prepared, gallery, tile)
        base[tile.queries, tile.videos] = part.base
        if trace is not None and part.trace is not None:
            trace[tile.queries, tile.videos] = part.trace
    return Scores(base, trace)


@torch.no_grad()
def top_k(
    queries: Tensor,
    gallery: Gallery,
    k: int = 100,
    engine: Engine | ScoringEngine = "auto",
    *,
    scores_at_once: int = TOP_K_SCORES,
) -> Top:
    """The best k videos per query. It streams over the gallery and holds k scores and one tile of scores per query."""
    if k < 0:
        raise ValueError(f"k is {k}, expected the number of videos to keep for each query")
    chosen, kept = choose(engine, gallery), min(k, len(gallery))

    def offer(queries: Tensor, keeper: TopKeeper) -> None:
        prepared = prepare_queries(queries, gallery)
        for tile in cut_to(chosen.plan(len(queries), gallery), scores_at_once):
            part = chosen.compute(prepared, gallery, tile)
            keeper.offer(part.final(gallery.config.fusion_weight), tile.queries, tile.videos.start)

    if gallery.device.type == "cuda" and engine == "auto" and 0 < len(queries) <= FEW:
        queries = queries.to(gallery.device)
        graph = gallery.graphs.find(queries, kept, offer)
        if graph is not None:
            return graph(queries)
    keeper = TopKeeper(len(queries), kept, gallery.device)
    offer(queries, keeper)
    return keeper.top()


def choose(engine: Engine | ScoringEngine, gallery: Gallery) -> ScoringEngine:
    """The engine to use. A gallery kept in full floats is scored in full floats unless ``triton`` is requested."""
    if not isinstance(engine, str):
        return engine
    if engine not in get_args(Engine):
        raise ValueError(f"unknown engine {engine!r}; there are: {', '.join(get_args(Engine))}")
    on_gpu = gallery.device.type == "cuda" and gallery.storage in ("fp16", "bf16", "int8")
    if engine == "triton" or (engine == "auto" and on_gpu):
        problem = fused_obstacle(gallery)
        if not problem:
            return FusedEngine()
        warnings.warn(f"scoring with the torch engine: {problem}", stacklevel=4)
    return ReferenceEngine() if engine == "reference" else FactorisedEngine()
