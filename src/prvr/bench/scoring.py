"""Benchmarks of scoring and ranking."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from prvr.bench.baseline import naive
from prvr.bench.corpus import (
    CLIPS,
    FRAMES,
    WIDTH,
    BenchmarkSizes,
    Shape,
    random_gallery,
    random_queries,
    random_tokens,
    random_trace,
)
from prvr.bench.limits import MachineLimits
from prvr.bench.measure import DeviceTimer, Measurement
from prvr.scoring import (
    FactorisedEngine,
    FusedEngine,
    Gallery,
    Storage,
    fused_obstacle,
    one_pass_pays,
    prepare_queries,
    ranks,
    score_parts,
    stored_products,
    top_k,
)


def all_pairs(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """Base and TRACE scores of every query against every video."""
    cuda = device.type == "cuda"
    for number, shape in enumerate(sizes.splits if cuda else sizes.splits[:1]):
        storage: Storage = "bf16" if cuda else "fp32"
        gallery = random_gallery(shape.videos, shape.registers, device, storage, distinct=shape.videos)
        queries = random_queries(shape.queries, device)
        taken = DeviceTimer(device)(functools.partial(score_parts, queries, gallery), repeats=9 if cuda else 3)
        columns = 2 * FRAMES + 2 * CLIPS if cuda else shape.columns()  # the kernel pads registers and values to 16 each
        rate = 2 * shape.queries * shape.videos * WIDTH * columns / taken.seconds
        outputs = 2 * 4 * shape.queries * shape.videos
        yield Measurement(
            "scoring",
            f"{shape.name}: {shape.queries:,} × {shape.videos:,}, base and TRACE, {storage}",
            taken.seconds,
            rate,
            "FLOP/s",
            rate / machine.matrix_rate,
            max(0, taken.memory - outputs),
            note=f"{columns} columns multiplied, {shape.columns()} of them needed; memory beyond gallery and scores"
            + (f"; {_passes(shape, gallery)}" if not cuda else ""),
        )
        if cuda:
            yield from _plain(machine, device, shape, gallery)
        else:
            yield _products_alone(machine, device, shape, gallery, taken.seconds)
        if number == 0:
            yield from _against_naive(device, shape, gallery, shape.queries if cuda else sizes.baseline_queries)
        del gallery


def _passes(shape: Shape, gallery: Gallery) -> str:
    fused = one_pass_pays(shape.queries, gallery)
    return "routes in one pass, by Numba" if fused else 'routes in four passes: pip install "prvr[numba]" for one'


def _products_alone(
    machine: MachineLimits, device: torch.device, shape: Shape, gallery: Gallery, whole: float
) -> Measurement:
    """The matrix products of the torch engine without anything that follows them."""
    engine, queries = FactorisedEngine(), prepare_queries(random_queries(shape.queries, device), gallery)
    tiles = engine.plan(shape.queries, gallery)

    def multiply() -> None:
        for tile in tiles:
            part, columns = gallery[tile.videos], queries.unit[tile.queries].T.contiguous()
            for vectors in (part.local, part.fixed, part.keys, part.registers, part.values):
                if vectors is not None:
                    stored_products(vectors, columns, engine.workspace, "alone")

    seconds = DeviceTimer(device)(multiply, repeats=3).seconds
    rate = 2 * shape.queries * shape.videos * WIDTH * shape.columns() / seconds
    note = f"{100 * seconds / whole:.0f} % of the time with what follows them"
    work = f"{shape.name}: the products alone"
    return Measurement("scoring", work, seconds, rate, "FLOP/s", rate / machine.matrix_rate, note=note)


def _plain(machine: MachineLimits, device: torch.device, shape: Shape, gallery: Gallery) -> Iterator[Measurement]:
    """How long the same kernel takes for plain maxima over as many columns."""
    if fused_obstacle(gallery):
        return
    engine, queries = FusedEngine(), prepare_queries(random_queries(shape.queries, device), gallery)
    clock, everything = DeviceTimer(device), slice(0, len(gallery))
    routed = clock(lambda: engine.launch(queries, gallery, everything), repeats=9).seconds
    tiles = engine.tuned_tiles()
    alike = clock(lambda: engine.launch(queries, gallery, everything, plain=True, tiles=tiles), repeats=9).seconds
    own = clock(lambda: engine.launch(queries, gallery, everything, plain=True), repeats=9).seconds
    columns = 2 * shape.queries * shape.videos * WIDTH * (2 * FRAMES + 2 * CLIPS)
    work = f"{shape.name}: the kernel alone"
    yield Measurement("scoring", work, routed, columns / routed, "FLOP/s", columns / routed / machine.matrix_rate)
    yield Measurement(
        "scoring",
        f"{shape.name}: the same kernel, plain maxima over as many columns",
        alike,
        columns / alike,
        "FLOP/s",
        columns / alike / machine.matrix_rate,
        note=f"TRACE takes {routed / alike:.2f} × this in the same tiles, {routed / own:.2f} × tiles tuned for maxima",
    )


def _against_naive(device: torch.device, shape: Shape, gallery: Gallery, queries: int) -> Iterator[Measurement]:
    """Beside the form that is usual in this field: fp32, chunks of queries, the log-sum-exp written out."""
    reference = naive()
    if reference is None:
        return
    vectors = random_queries(queries, device)
    tokens = random_tokens(shape.videos, shape.registers, device)
    trace = random_trace(device)
    clock = DeviceTimer(device)
    ours = clock(lambda: score_parts(vectors, gallery), repeats=5).seconds

    def written_out() -> Any:
        base = reference.base_scores(vectors, tokens, 0.6, 0.4)
        return base + 0.03 * reference.trace_scores(vectors, tokens, trace.projections, trace.config)

    with torch.no_grad():
        theirs = clock(written_out, repeats=3).seconds
    note = "baseline: fp32, chunks of queries, log-sum-exp written out"
    yield Measurement(
        "scoring", f"{shape.name}: {queries:,} queries, beside the naive form", ours, baseline=theirs, note=note
    )


def one_query(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """A single query over a large gallery: one pass over the stored bytes."""
    query, shared = random_queries(1, device), _shared_with_fp32(device, sizes.storage_videos)
    for storage in ("fp32", "fp16", "bf16", "int8"):
        gallery = random_gallery(sizes.single_videos, 6, device, storage)
        taken = DeviceTimer(device)(functools.partial(top_k, query, gallery, k=100), repeats=7)
        rate = gallery.bytes / taken.seconds
        yield Measurement(
            "one query",
            f"{sizes.single_videos:,} videos, best 100, {storage} ({gallery.bytes / 1e9:.2f} GB)",
            taken.seconds,
            rate,
            "B/s",
            rate / machine.read_rate,
            taken.memory,
            note="" if storage == "fp32" else f"{100 * shared[storage]:.1f} % of the best 100 are fp32's",
        )
        del gallery


def _shared_with_fp32(device: torch.device, videos: int) -> dict[str, float]:
    """Which share of each query's best 100 a smaller storage type keeps, on different random videos."""
    gallery, queries = random_gallery(videos, 6, device, "fp32", distinct=videos), random_queries(32, device)
    full = top_k(queries, gallery, k=100).indices
    shares = {}
    for storage in ("fp16", "bf16", "int8"):
        kept = top_k(queries, gallery.to(storage=storage), k=100).indices
        shares[storage] = float((kept[:, :, None] == full[:, None, :]).any(-1).float().mean())
    return shares


def ranking(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """The rank of each query's right video, by counting; the largest split on a GPU, the first on a CPU."""
    shape = sizes.splits[-1 if device.type == "cuda" else 0]
    scores = torch.randn(shape.queries, shape.videos, device=device)
    right = torch.randint(shape.videos, (shape.queries,), device=device)
    taken = DeviceTimer(device)(lambda: ranks(scores, right), repeats=7)
    reference = naive()
    baseline = None
    if reference is not None:
        part, answers = scores[:1000], right[:1000].tolist()
        taken_by_part = DeviceTimer(device)(lambda: reference.ranks_and_recalls(part, answers), repeats=1, warm_up=0)
        baseline = taken_by_part.seconds * shape.queries / 1000
    yield Measurement(
        "ranks",
        f"{shape.name}: ranks of {shape.queries:,} × {shape.videos:,} scores",
        taken.seconds,
        scores.numel() / taken.seconds,
        "scores/s",
        memory=taken.memory,
        baseline=baseline,
        note="baseline: 1,000 queries sorted one by one, scaled up" if baseline else "",
    )
