"""``prvr bench``: how fast this machine does the work, compared with its limits and a naive implementation."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.table import Table
from rich.text import Text

from prvr.bench import BENCHMARKS, Benchmark, BenchmarkSizes, MachineLimits, Measurement, films_in, run_benchmarks
from prvr.cli.console import print_table
from prvr.errors import UserError
from prvr.files import write_whole
from prvr.terminal import Console
from prvr.training import choose_device

_WIDTH = 132


class BenchError(UserError):
    """The numbers cannot be written where they should be."""


@dataclass(frozen=True)
class BenchArguments:
    """Measure scoring, single queries, ranks, training, growth, encoding and adding: one table and a JSON file.

    Every rate is shown next to the peak measured in the same run (a large matrix product, a long read). If prvr runs
    from its source tree, a naive implementation of the same work is measured too. Times are medians. It takes about
    ten minutes on two cores and a few on a GPU; other work on the machine shows in the numbers.
    """

    only: tuple[Benchmark, ...] = BENCHMARKS
    """which parts to measure"""
    device: str = "auto"
    """cpu, cuda, or auto (a GPU if there is one)"""
    films: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """videos that are added to a library for --only encoding [films that are drawn first]"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("bench.json")
    """JSON file to write the numbers to"""


def bench_command(argv: list[str]) -> int:
    arguments = tyro.cli(BenchArguments, prog="prvr bench", args=argv)
    device = choose_device(arguments.device)
    # Fail now if a file cannot be read or written, not after ten minutes.
    if arguments.films is not None:
        films_in(arguments.films)
    _require_writable(arguments.out)
    return _measure(arguments, device)


def _require_writable(out: Path) -> None:
    """Refuse a place where ``write_whole`` could not write: it writes a file beside, which then takes the name."""
    if out.is_dir():
        raise BenchError(f"--out {out} is a folder: give the name of a file in it")
    if not out.parent.is_dir():
        raise BenchError(f"--out {out} is in a folder that does not exist: create it, or choose another file")
    try:
        tempfile.TemporaryFile(dir=out.parent).close()
    except OSError as problem:
        raise BenchError(f"--out {out} cannot be written ({problem.strerror}): choose another file") from problem


def _measure(arguments: BenchArguments, device: torch.device) -> int:
    console, progress = Console(), Console(stderr=True)
    with progress.status("measuring the limits of this machine"):
        machine = MachineLimits.measure(device)
    console.print(
        f"{machine.device} ({machine.processor}, {machine.cores} threads, torch {machine.torch_version}): "
        f"{machine.matrix_type} products {_si(machine.matrix_rate)}FLOP/s, reads {_si(machine.read_rate)}B/s"
    )
    rows: list[Measurement] = []
    with progress.status("measuring") as status:
        for row in run_benchmarks(machine, device, arguments.only, BenchmarkSizes(folder=arguments.films)):
            rows.append(row)
            status.update(f"measured: {row.work}")
            _write(arguments.out, machine, rows)
    print_table(console, _table(rows), _WIDTH)
    console.print(f"written to {arguments.out}")
    return 0


def _write(path: Path, machine: MachineLimits, rows: list[Measurement]) -> None:
    write_whole(path, json.dumps({"machine": asdict(machine), "rows": [asdict(row) for row in rows]}, indent=1))


def _table(rows: list[Measurement]) -> Table:
    table = Table("work", box=None, pad_edge=False)
    for name in ("time", "rate", "of peak", "memory", "× naive"):
        table.add_column(name, justify="right", no_wrap=True)
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            table.add_row(f"[bold]{group}")
        table.add_row(
            row.work,
            _duration(row.seconds) if row.seconds else "",
            "" if row.rate is None else f"{_si(row.rate)}{row.unit}",
            "" if row.share is None else f"{100 * row.share:.0f} %",
            "" if row.memory is None else f"{row.memory / 1e6:,.0f} MB",
            "" if row.speedup is None else f"{row.speedup:.1f}",
        )
        if row.note:
            table.add_row(Text(f"  {row.note}", "dim"))
    return table


def _si(value: float) -> str:
    for step, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= step:
            return f"{value / step:.3g} {prefix}"
    return f"{value:.3g} "


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
