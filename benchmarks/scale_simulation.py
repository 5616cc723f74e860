"""Estimate storage, building and searchers of larger libraries from what was measured on one machine.

    python benchmarks/candidates.py --videos 1000000 --tokens 16 --stretches 8 --trace 0 --out million.json
    python benchmarks/scale_simulation.py million.json
    python benchmarks/scale_simulation.py million.json --queries 1000 --node-memory 1024

Sizes are proportional to the videos. Lists stay as long as the measured ones, because Lance splits longer ones. The
lists to look at grow with a power of their number (``--growth``; compare two measurements to know it), and a search
compares its query with the centre of every list. Searchers keep the index in memory. An index that is too large for
one is split among several, and a search waits for the slowest of them. Waiting is simulated: searches arrive at random,
and take as long as the measured ones, with their spread, on one of a searcher's cores. Everything that was not measured
is an option (``Assumed``).
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

Times = NDArray[np.float64]  # seconds
GRAPH_LISTS = 4096  # with more lists of 256-d vectors, Lance finds the list of a stretch in a graph
SIZES = (10**6, 10**7, 10**8, 10**9)


@dataclass(frozen=True)
class Measured:
    """One machine, as measured by candidates.py. Seconds are those of one core."""

    row_bytes: float  # of a video in the table
    index_bytes: float  # of a stretch in the index
    stretches: int  # of a video
    length: float  # stretches of a list
    lists: int
    probes: int  # lists that were looked at
    look: float  # seconds for each stretch that is looked at
    rest: float  # seconds of a search besides: start, fetch the candidates, score them
    spread: float  # standard deviation of the logarithm of a search's time
    assign: float  # seconds to find the list of a stretch, for each list

    @staticmethod
    def of(found: dict[str, Any]) -> Measured:
        size, lists = found["videos"] * found["stretches"], found["partitions"]
        probes, times = (np.array(column) for column in zip(*found["wider"].items(), strict=True))
        slope, _ = np.polyfit(probes.astype(float) * size / lists, times / 1000, 1)
        look, busy = max(slope, 0.0), np.array(found["processor"]) / 1000
        return Measured(
            row_bytes=1e6 * found["megabytes"]["rows"] / found["videos"],
            index_bytes=1e6 * found["megabytes"]["index"] / size,
            stretches=found["stretches"],
            length=size / lists,
            lists=lists,
            probes=found["probes"],
            look=look,
            rest=max(0.0, float(np.median(busy)) - look * (found["probes"] * size / lists + lists)),
            spread=float(np.log(busy).std()),
            assign=found["build"] / size / lists,
        )


@dataclass(frozen=True)
class Assumed:
    """What was not measured. Prices are round numbers; replace them with yours."""

    growth: float = 0.7  # power of the number of lists with which the lists to look at grow; for 95 %: 8 of 40 lists at
    # 10⁴ videos, 16 of 256 at 10⁵, 64 of 1,024 at 10⁶, which is 0.64 altogether, but 1 in the last step
    frames: float = 60.0  # of a video that are encoded
    gpu_frames: float = 10_000.0  # frames that a GPU decodes and encodes in a second
    gpu_price: float = 2.0  # $ an hour
    node_cores: int = 64
    node_memory: float = 512.0  # GB
    memory_share: float = 0.7  # of it for the index; the rest caches rows
    node_price: float = 3.0  # $ an hour
    storage_price: float = 20.0  # $ a month for 1000 GB
    queries: float = 100.0  # a second
    busy: float = 0.6  # share of the time that a searcher's cores may be busy


@dataclass(frozen=True)
class Plan:
    """What a library of this many videos needs."""

    videos: int
    bytes: float  # in the bucket
    index_bytes: float
    lists: int
    probes: int
    looked: float  # stretches and centres that a search looks at
    gpu_hours: float  # to encode the videos
    index_hours: float  # of one core, to build the index
    parts: int  # searchers that hold the index once
    service: float  # seconds that a search keeps one core of each part busy
    searchers: int  # for the queries that are assumed
    build_cost: float  # $
    month_cost: float  # $


def plan(videos: int, m: Measured, a: Assumed) -> Plan:
    size = videos * m.stretches
    lists = max(1, round(size / m.length))
    probes = min(lists, max(1, round(m.probes * (lists / m.lists) ** a.growth)))
    index = size * m.index_bytes
    parts = max(1, math.ceil(index / (1e9 * a.node_memory * a.memory_share)))
    looked = probes * m.length + lists
    service = m.look * looked / parts + m.rest
    searchers = parts * max(1, math.ceil(a.queries * service / (a.busy * a.node_cores)))
    gpu_hours, index_hours = videos * a.frames / a.gpu_frames / 3600, size * min(lists, GRAPH_LISTS) * m.assign / 3600
    total = videos * m.row_bytes + index
    return Plan(
        videos=videos,
        bytes=total,
        index_bytes=index,
        lists=lists,
        probes=probes,
        looked=looked,
        gpu_hours=gpu_hours,
        index_hours=index_hours,
        parts=parts,
        service=service,
        searchers=searchers,
        build_cost=gpu_hours * a.gpu_price + index_hours / a.node_cores * a.node_price,
        month_cost=searchers * a.node_price * 730 + total / 1e12 * a.storage_price,
    )


def simulate(p: Plan, m: Measured, a: Assumed, searches: int, seed: int = 0) -> Times:
    """How long searches wait for their slowest part."""
    rng = np.random.default_rng(seed)
    rate = a.queries * p.parts / p.searchers  # at each searcher
    waited = np.zeros(searches)
    for _ in range(min(p.parts, 64)):  # more parts change little
        taken = p.service * np.exp(m.spread * rng.standard_normal(searches))
        waited = np.maximum(waited, answer_times(rng.exponential(1 / rate, searches).cumsum(), taken, a.node_cores))
    return waited


def answer_times(arrivals: Times, taken: Times, cores: int) -> Times:
    """From the arrival of each request until its answer: requests are served in turn, each by the first free core.

    >>> answer_times(np.array([0.0, 0.1, 0.2]), np.array([1.0, 1.0, 1.0]), cores=2)
    array([1. , 1. , 1.8])
    """
    free = [0.0] * cores
    ends = np.empty(len(arrivals))
    for number, (arrival, seconds) in enumerate(zip(arrivals, taken, strict=True)):
        ends[number] = max(arrival, heapq.heappop(free)) + seconds
        heapq.heappush(free, float(ends[number]))
    return ends - arrivals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="the JSON of candidates.py")
    parser.add_argument("--searches", type=int, default=20_000, help="how many are simulated")
    for each in fields(Assumed):
        flag = f"--{each.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(each.default), default=each.default, dest=each.name)
    args = parser.parse_args()
    a = Assumed(**{each.name: getattr(args, each.name) for each in fields(Assumed)})
    m = Measured.of(json.loads(args.measured.read_text("utf-8")))
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"measured: {m.row_bytes / 1000:.1f} kB a video and {m.index_bytes:.0f} bytes a stretch in the index; a core "
        f"looks at {1e-6 / m.look if m.look else math.inf:.1f} million stretches a second and needs "
        f"{1000 * m.rest:.0f} ms besides"
    )
    console.print(table([plan(videos, m, a) for videos in SIZES], m, a, args.searches))


def table(plans: list[Plan], m: Measured, a: Assumed, searches: int) -> Table:
    rows: dict[str, list[str]] = {}
    for each in plans:
        middle, late = np.quantile(simulate(each, m, a, searches), [0.5, 0.99])
        for name, value in {
            "storage": f"{each.bytes / 1e12:,.2f} TB",
            "of it the index": f"{each.index_bytes / 1e12:,.3f} TB",
            "lists, looked at": f"{each.lists:,}, {each.probes:,}",
            "encode: GPU hours": f"{each.gpu_hours:,.0f}",
            "index: core hours": f"{each.index_hours:,.0f}",
            "build: cost, once": f"${each.build_cost:,.0f}",
            "index in memory: searchers": f"{each.parts:,}",
            "memory of each": f"{each.index_bytes / each.parts / 1e9:,.0f} GB",
            "a search: core seconds": f"{each.service * each.parts:,.2f}",
            f"searchers for {a.queries:g} queries a second": f"{each.searchers:,}",
            "serve: cost a month": f"${each.month_cost:,.0f}",
            "a search: median, 99 % within": f"{1000 * middle:,.0f}, {1000 * late:,.0f} ms",
        }.items():
            rows.setdefault(name, []).append(value)
    made = Table(title=f"videos of {a.frames:g} frames, {m.stretches} stretches indexed", title_justify="left")
    made.add_column("videos")
    for each in plans:
        made.add_column(f"{each.videos:.0e}".replace("e+0", "e"), justify="right")
    for name, values in rows.items():
        made.add_row(name, *values)
    return made


if __name__ == "__main__":
    main()
