"""Scoring, ranking and their parts."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from prvr.bench.baseline import naive
from prvr.bench.corpus import (
    ACTIVITYNET,
    CHARADES,
    CLIPS,
    FRAMES,
    TVR,
    WIDTH,
    Shape,
    random_gallery,
    random_queries,
    random_tokens,
    random_trace,
)
from prvr.bench.measure import Clock, Machine, Row
from prvr.scoring import FusedEngine, Gallery, Storage, fused_obstacle, prepare_queries, ranks, score_parts, top_k

# The naive form would take minutes for all queries on a CPU: both are timed on so many.
_BASELINE_QUERIES = 200
_SINGLE_VIDEOS = 10_000


def all_pairs(machine: Machine, device: torch.device) -> Iterator[Row]:
    """Base and TRACE of every query against every video."""
    cuda = device.type == "cuda"
    for shape in (CHARADES, TVR, ACTIVITYNET) if cuda else (CHARADES,):
        storage: Storage = "bf16" if cuda else "fp32"
        gallery = random_gallery(shape.videos, shape.registers, device, storage, distinct=shape.videos)
        queries = random_queries(shape.queries, device)
        taken = Clock(device)(functools.partial(score_parts, queries, gallery), repeats=9 if cuda else 3)
        columns = 2 * FRAMES + 2 * CLIPS if cuda else shape.columns()  # the kernel pads registers and values to 16 each
        rate = 2 * shape.queries * shape.videos * WIDTH * columns / taken.seconds
        outputs = 2 * 4 * shape.queries * shape.videos
        yield Row(
            "scoring",
            f"{shape.name}: {shape.queries:,} × {shape.videos:,}, base and TRACE, {storage}",
            taken.seconds,
            rate,
            "FLOP/s",
            rate / machine.matrix_rate,
            max(0, taken.memory - outputs),
            note=f"{columns} columns multiplied, {shape.columns()} of them needed; memory beyond gallery and scores",
        )
        if cuda:
            yield from _plain(machine, device, shape, gallery)
        yield from _against_naive(device, shape, gallery, shape.queries if cuda else _BASELINE_QUERIES)
        del gallery


def _plain(machine: Machine, device: torch.device, shape: Shape, gallery: Gallery) -> Iterator[Row]:
    """What the same kernel takes for plain maxima over as many columns."""
    if fused_obstacle(gallery):
        return
    engine, queries = FusedEngine(), prepare_queries(random_queries(shape.queries, device), gallery)
    clock, everything = Clock(device), slice(0, len(gallery))
    routed = clock(lambda: engine.launch(queries, gallery, everything), repeats=9).seconds
    tiles = engine.tuned_tiles()
    alike = clock(lambda: engine.launch(queries, gallery, everything, plain=True, tiles=tiles), repeats=9).seconds
    own = clock(lambda: engine.launch(queries, gallery, everything, plain=True), repeats=9).seconds
    columns = 2 * shape.queries * shape.videos * WIDTH * (2 * FRAMES + 2 * CLIPS)
    work = f"{shape.name}: the kernel alone"
    yield Row("scoring", work, routed, columns / routed, "FLOP/s", columns / routed / machine.matrix_rate)
    yield Row(
        "scoring",
        f"{shape.name}: the same kernel, plain maxima over as many columns",
        alike,
        columns / alike,
        "FLOP/s",
        columns / alike / machine.matrix_rate,
        note=f"TRACE takes {routed / alike:.2f} × this in the same tiles, {routed / own:.2f} × tiles tuned for maxima",
    )


def _against_naive(device: torch.device, shape: Shape, gallery: Gallery, queries: int) -> Iterator[Row]:
    """Beside the field's form: fp32, chunks of queries, the log-sum-exp written out."""
    reference = naive()
    if reference is None:
        return
    if shape is not CHARADES and device.type == "cuda":
        return
    asked = random_queries(queries, device)
    tokens = random_tokens(shape.videos, shape.registers, device)
    trace = random_trace(device)
    clock = Clock(device)
    ours = clock(lambda: score_parts(asked, gallery), repeats=5).seconds

    def written_out() -> Any:
        base = reference.base_scores(asked, tokens, 0.6, 0.4)
        return base + 0.03 * reference.trace_scores(asked, tokens, trace.projections, trace.config)

    with torch.no_grad():
        theirs = clock(written_out, repeats=3).seconds
    note = "baseline: fp32, chunks of queries, log-sum-exp written out"
    yield Row("scoring", f"{shape.name}: {queries:,} queries, beside the naive form", ours, baseline=theirs, note=note)


def one_query(machine: Machine, device: torch.device) -> Iterator[Row]:
    """A single query over 10,000 videos: one pass over the stored bytes."""
    query, shared = random_queries(1, device), _shared_with_full_floats(device)
    for storage in ("fp32", "fp16", "bf16", "int8"):
        gallery = random_gallery(_SINGLE_VIDEOS, 6, device, storage)
        taken = Clock(device)(functools.partial(top_k, query, gallery, k=100), repeats=7)
        rate = gallery.bytes / taken.seconds
        yield Row(
            "one query",
            f"{_SINGLE_VIDEOS:,} videos, best 100, {storage} ({gallery.bytes / 1e9:.2f} GB)",
            taken.seconds,
            rate,
            "B/s",
            rate / machine.read_rate,
            taken.memory,
            note="" if storage == "fp32" else f"{100 * shared[storage]:.1f} % of the best 100 are fp32's",
        )
        del gallery


def _shared_with_full_floats(device: torch.device) -> dict[str, float]:
    """How much of each query's best 100 a smaller storage keeps, on random videos, all different."""
    gallery, queries = random_gallery(2_000, 6, device, "fp32", distinct=2_000), random_queries(32, device)
    full = top_k(queries, gallery, k=100).indices
    found = {}
    for storage in ("fp16", "bf16", "int8"):
        kept = top_k(queries, gallery.to(storage=storage), k=100).indices
        found[storage] = float((kept[:, :, None] == full[:, None, :]).any(-1).float().mean())
    return found


def ranking(machine: Machine, device: torch.device) -> Iterator[Row]:
    """Ranks by counting, and the best k."""
    shape = ACTIVITYNET if device.type == "cuda" else CHARADES
    scores = torch.randn(shape.queries, shape.videos, device=device)
    right = torch.randint(shape.videos, (shape.queries,), device=device)
    taken = Clock(device)(lambda: ranks(scores, right), repeats=7)
    reference = naive()
    baseline = None
    if reference is not None:
        few, answers = scores[:1000], right[:1000].tolist()
        whole = Clock(device)(lambda: reference.ranks_and_recalls(few, answers), repeats=1, warm_up=0).seconds
        baseline = whole * shape.queries / 1000
    yield Row(
        "ranks",
        f"{shape.name}: ranks of {shape.queries:,} × {shape.videos:,} scores",
        taken.seconds,
        scores.numel() / taken.seconds,
        "scores/s",
        memory=taken.memory,
        baseline=baseline,
        note="baseline: 1,000 queries sorted one by one, scaled up" if baseline else "",
    )
