"""Estimate nodes, memory, cost and waiting times for larger libraries, from what was measured on one node.

    python benchmarks/scale_measure.py --out scale.json
    python benchmarks/scale_simulation.py scale.json
    python benchmarks/scale_simulation.py scale.json --minutes 10 --node-memory 1024 --replicas 3

Sizes and costs are sums. Waiting is simulated: a search waits for the slowest of its shards. Each takes as long as the
measured one did, scaled to its size, with the measured spread, and stalls now and then (a replica is then asked too,
``--hedge``). Nodes fail and load their part again. Then all scores, 4 bytes for each section and query, arrive over the
network of the one process that ranks. The share of partial answers is compared with its closed form, and a simulation
of the measured cluster with the measurement. Everything that was not measured is an option (``Assumed``).
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

Times = NDArray[np.float64]  # seconds
SIZES = (10**5, 10**6, 10**7)
SOONEST = 0.05  # seconds; no answer is late before that
SCORE_BYTES = 4


@dataclass(frozen=True)
class Measured:
    """One node, as measured by scale_measure.py."""

    bytes_per_frame: float
    index: float  # core seconds to decode and finish a second of video, without an image–text encoder
    scan: float  # bytes a core scores in a second, one query
    scan_batch: float  # the same, for a batch of queries together
    batch: int
    spread: float  # standard deviation of the logarithm of scoring times
    ask: Times  # seconds of empty calls
    page: float  # seconds of a search besides scoring, in the measured library: ranking, moments, evidence
    restart: float  # seconds until a killed shard answers again, without loading
    commit: float  # seconds of the one committer for a video
    sections: float  # of a video
    head_bytes: float  # that the process that ranks keeps in memory for a video

    @staticmethod
    def of(found: dict[str, Any]) -> Measured:
        size, one = found["storage"]["bytes"], np.array(found["searching"]["one_core"])
        batch = float(np.median(found["searching"]["one_core_batch"]))
        cluster = found["cluster"] or {"ask": [0.002], "restart": 5.0}
        return Measured(
            bytes_per_frame=found["storage"]["bytes_per_frame"],
            index=found["indexing"]["decode"] + found["indexing"]["finish"],
            scan=size / float(np.median(one)),
            scan_batch=size / batch,
            batch=found["searching"]["batch"],
            spread=float(np.log(one).std()),
            ask=np.array(cluster["ask"]),
            page=found["searching"]["page"],
            restart=cluster["restart"],
            commit=found["storage"]["commit"],
            sections=found["searching"]["sections_per_video"],
            head_bytes=found["storage"]["head_bytes"],
        )


@dataclass(frozen=True)
class Assumed:
    """What was not measured. Prices are round numbers; replace them with yours."""

    minutes: float = 5.0  # of a video
    rate: float = 1.0  # frames per second that are encoded
    node_cores: int = 64
    node_memory: float = 512.0  # GB
    memory_share: float = 0.8  # of it for the library
    node_bandwidth: float = 200.0  # GB/s that all cores of a node read together
    node_price: float = 3.0  # $ an hour
    gpu_frames: float = 2000.0  # frames a second that a GPU encodes (image–text model)
    gpu_price: float = 2.0  # $ an hour
    storage_price: float = 20.0  # $ a month for 1000 GB
    days: float = 30.0  # to index everything
    replicas: int = 2
    stall: float = 0.001  # share of a shard's answers that stall
    stall_seconds: float = 0.5
    hedge: float = 0.95  # share of usual answers after whose time another replica is asked as well; 0: never
    node_days: float = 180.0  # from one failure of a node to its next
    load: float = 1.0  # GB/s at which a node loads its part
    network: float = 1.0  # GB/s at which scores reach the process that ranks
    lookup: float = 0.020  # seconds for an approximate index to name candidates
    candidates: float = 0.001  # share of videos that are then scored exactly


@dataclass(frozen=True)
class Plan:
    """What a library of this many videos needs."""

    videos: int
    bytes: float
    shards: int  # nodes that hold it once
    nodes: int  # with replicas
    index_core_hours: float
    index_nodes: int
    gpus: int
    index_cost: float  # $
    month_cost: float  # $
    scan: float  # seconds for a shard to score one query exactly
    transfer: float  # seconds for the scores of one query to arrive
    searches: float  # a second, in full batches, all replicas


def plan(videos: int, m: Measured, a: Assumed) -> Plan:
    frames = videos * a.minutes * 60 * a.rate
    size = frames * m.bytes_per_frame
    shards = max(1, math.ceil(size / (a.node_memory * 1e9 * a.memory_share)))
    core_hours = videos * a.minutes * 60 * m.index / 3600
    gpu_hours = frames / a.gpu_frames / 3600
    nodes = shards * a.replicas
    return Plan(
        videos=videos,
        bytes=size,
        shards=shards,
        nodes=nodes,
        index_core_hours=core_hours,
        index_nodes=math.ceil(core_hours / a.node_cores / (24 * a.days)),
        gpus=math.ceil(gpu_hours / (24 * a.days)),
        index_cost=core_hours / a.node_cores * a.node_price + gpu_hours * a.gpu_price,
        month_cost=nodes * a.node_price * 730 + size / 1e12 * a.storage_price,
        scan=size / shards / node_speed(m.scan, a),
        transfer=SCORE_BYTES * videos * m.sections / (a.network * 1e9),
        searches=a.replicas * m.batch / (size / shards / node_speed(m.scan_batch, a)),
    )


def node_speed(core: float, a: Assumed) -> float:
    """Bytes that a node scores in a second: all its cores together, limited by its memory."""
    return min(core * a.node_cores, a.node_bandwidth * 1e9)


def down_share(size: float, m: Measured, a: Assumed) -> float:
    """Share of the time that a replica is away: from a failure until its part is loaded elsewhere."""
    away = m.restart + size / (a.load * 1e9)
    return away / (a.node_days * 86400 + away)


def partial_share(shards: int, down: float, replicas: int) -> float:
    """Share of searches for which all replicas of some shard are away.

    >>> round(partial_share(2, 0.1, 1), 10)
    0.19
    """
    return -math.expm1(shards * math.log1p(-(down**replicas)))


def simulate(
    scan: float, shards: int, down: float, m: Measured, a: Assumed, searches: int, seed: int = 0
) -> tuple[Times, float]:
    """How long searches wait, and which share of them is partial."""
    rng = np.random.default_rng(seed)
    waited, partial, late = np.zeros(searches), 0, late_after(scan, m, a)

    def taken() -> Times:
        usual = scan * np.exp(m.spread * rng.standard_normal(shards))
        return usual + a.stall_seconds * (rng.random(shards) < a.stall)

    for number in range(searches):
        asked = rng.choice(m.ask, shards)
        there = rng.random((a.replicas, shards)) >= down
        away = (~there).cumprod(0).sum(0)  # replicas asked in vain, in turn
        partial += bool((away == a.replicas).any())
        time = taken()
        if late < math.inf:
            time = np.where((time > late) & (there.sum(0) > 1), np.minimum(time, late + asked + taken()), time)
        waited[number] = float(np.max(asked * (1 + away) + np.where(away == a.replicas, 0.0, time))) + m.page
    return waited, partial / searches


def late_after(scan: float, m: Measured, a: Assumed) -> float:
    """Seconds after which a shard's answer is late, as in ``prvr.cluster.replicas``."""
    if a.hedge <= 0 or a.replicas < 2:
        return math.inf
    return max(SOONEST, scan * math.exp(m.spread * NormalDist().inv_cdf(a.hedge)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="the JSON of scale_measure.py")
    parser.add_argument("--searches", type=int, default=2000, help="how many are simulated")
    for each in fields(Assumed):
        flag = f"--{each.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(each.default), default=each.default, dest=each.name)
    args = parser.parse_args()
    found = json.loads(args.measured.read_text("utf-8"))
    m, a = Measured.of(found), Assumed(**{each.name: getattr(args, each.name) for each in fields(Assumed)})
    console = Console(highlight=False, soft_wrap=True)
    machine = found["machine"]
    console.print(
        f"measured on {machine['cores']} cores of {machine['processor']}, load {machine['load_before']} before"
    )
    console.print(
        f"{m.bytes_per_frame:.0f} bytes a frame; {1000 * m.index:.1f} core ms to decode and finish a second of video; "
        f"a core scores {m.scan / 1e9:.2f} GB/s ({m.scan_batch * m.batch / 1e9:.1f} with {m.batch} queries together)"
    )
    if found["cluster"]:
        check(console, found, m, a, args.searches)
    console.print(table([plan(videos, m, a) for videos in SIZES], m, a, args.searches))


def check(console: Console, found: dict[str, Any], m: Measured, a: Assumed, searches: int) -> None:
    """Compare a simulation of the measured cluster with its measurement."""
    shards = found["cluster"]["shards"]
    scan = found["storage"]["bytes"] / shards / m.scan  # a core for each shard
    simulated, _ = simulate(scan, shards, 0.0, m, a, searches)
    measured = np.array(found["cluster"]["whole"])
    for share in (0.5, 0.9):
        one, other = np.quantile(simulated, share), np.quantile(measured, share)
        console.print(
            f"{share:.0%} of searches in {shards} shards on this machine: simulated {1000 * one:.0f} ms, "
            f"measured {1000 * other:.0f} ms ({one / other:.2f} ×)"
        )


def table(plans: list[Plan], m: Measured, a: Assumed, searches: int) -> Table:
    rows: dict[str, list[str]] = {}

    def row(name: str, value: str) -> None:
        rows.setdefault(name, []).append(value)

    for each in plans:
        row("library", _size(each.bytes))
        row("decode: core hours", f"{each.index_core_hours:,.0f}")
        row(f"index in {a.days:g} days: nodes + GPUs", f"{each.index_nodes:,} + {each.gpus:,}")
        row("one committer: hours", f"{each.videos * m.commit / 3600:,.1f}")
        row("index: cost, once", f"${each.index_cost:,.0f}")
        row(f"serve: nodes ({a.replicas} replicas)", f"{each.nodes:,}")
        row("process that ranks: memory", f"{each.videos * m.head_bytes / 1e9:,.1f} GB")
        row("scores sent for a query", f"{SCORE_BYTES * each.videos * m.sections / 1e6:,.1f} MB")
        row("serve: cost a month", f"${each.month_cost:,.0f}")
        down = down_share(each.bytes / each.shards, m, a)
        for name, scan, transfer in (
            ("exact", each.scan, each.transfer),
            ("candidates", a.lookup + a.candidates * each.scan, a.candidates * each.transfer),
        ):
            waited, partial = simulate(scan, each.shards, down, m, a, searches)
            middle, late = np.quantile(waited, [0.5, 0.99]) + transfer
            row(f"{name}: median, 99 % within", f"{_time(middle)}, {_time(late)}")
        row("partial answers: simulated", f"{partial:.1e}")
        row("partial answers: closed form", f"{partial_share(each.shards, down, a.replicas):.1e}")
        row("exact searches a second, in batches", f"{each.searches:,.1f}")
    made = Table(title=f"videos of {a.minutes:g} minutes, {a.rate:g} frames a second", title_justify="left")
    made.add_column("")
    for each in plans:
        made.add_column(f"{each.videos:.0e}".replace("e+0", "e"), justify="right")
    for name, values in rows.items():
        made.add_row(name, *values)
    return made


def _size(number: float) -> str:
    return f"{number / 1e12:,.1f} TB"


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


if __name__ == "__main__":
    main()
