"""``prvr zoo``: all methods, what they need, and how well each is verified."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from prvr.cli.console import print_table
from prvr.errors import did_you_mean
from prvr.evaluation import CLIP_CAVEAT, PUBLISHED_CAVEAT, ZooRow, repository_goldens, zoo_rows
from prvr.terminal import Console
from prvr.training import ConfigError, preset_names

_WIDTH = 118  # of all columns side by side


@dataclass(frozen=True)
class ZooArguments:
    """List all methods: parameters, inputs, published SumR, and what was verified just now.

    Parameters are counted by building each method with its preset for --dataset. Golden numbers (tokens and scores of
    faithful implementations, under the authors' names) are recomputed every time: the column shows the largest
    absolute difference between our scores and theirs.
    """

    dataset: str = "charades"
    """dataset whose presets are used to count parameters: activitynet, charades or tvr"""
    goldens: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder of golden numbers [default: tests/golden, if prvr runs from its source tree]"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON instead of a table"""


def zoo_command(argv: list[str]) -> int:
    arguments = tyro.cli(ZooArguments, prog="prvr zoo", args=argv)
    if arguments.dataset not in preset_names():
        hint = did_you_mean(arguments.dataset, preset_names())
        names = ", ".join(preset_names())
        raise ConfigError(f"there are no presets for {arguments.dataset!r}.{hint} Choose one of: {names}")
    if arguments.goldens is not None and not arguments.goldens.is_dir():
        raise ConfigError(f"{arguments.goldens} is not a folder; expected one with NAME.npz or NAME/io.safetensors")
    goldens = arguments.goldens or repository_goldens()
    with Console(stderr=True).status("building every method and recomputing its golden numbers"):
        rows = zoo_rows(arguments.dataset, goldens)
    if arguments.as_json:
        print(json.dumps([asdict(row) | {"official_state": row.official_state} for row in rows], indent=2))
        return 0
    console = Console()
    print_table(console, _table(rows), _WIDTH)
    console.print()
    print_table(console, _clip_table(rows))
    notes = [
        f"the second table: {CLIP_CAVEAT}",
        f"parameters: with the {arguments.dataset} preset; SumR {PUBLISHED_CAVEAT}",
        "golden: largest |ours − faithful implementation's| score, recomputed now"
        + (f" from {goldens}" if goldens else "; no goldens found, give --goldens DIR"),
        "checkpoint: whether a state dict with the authors' keys was loaded from that golden, every key used",
    ]
    for note in notes:
        console.print(note, style="dim", highlight=False, soft_wrap=True)
    return 0


def _table(rows: list[ZooRow]) -> Table:
    table = Table(box=None)
    for name in ("--method", "method", "year"):
        table.add_column(name, no_wrap=True)
    table.add_column("parameters", justify="right")
    table.add_column("needs")
    for dataset in rows[0].published:
        table.add_column(f"{dataset}\nSumR", justify="right")
    table.add_column("golden", no_wrap=True)
    table.add_column("checkpoint", overflow="fold")
    for row in rows:
        table.add_row(
            row.method,
            row.title,
            str(row.year or ""),
            "" if row.parameters is None else f"{row.parameters / 1e6:.2f} M",
            ", ".join(row.needs) or "nothing",
            *("" if value is None else f"{value:.1f}" for value in row.published.values()),
            _golden(row),
            row.official_state,
        )
    return table


def _clip_table(rows: list[ZooRow]) -> Table:
    """Numbers on other features, which may not stand in one column with the others."""
    table = Table("on CLIP features", box=None)
    for dataset in rows[0].published_clip:
        table.add_column(f"{dataset} SumR", justify="right")
    for row in rows:
        if any(value is not None for value in row.published_clip.values()):
            table.add_row(row.title, *("" if v is None else f"{v:.1f}" for v in row.published_clip.values()))
    return table


def _golden(row: ZooRow) -> str:
    if row.golden is None:
        return "not checked"
    return f"{row.golden.error:.0e} {'ok' if row.golden.holds else f'above {row.golden.tolerance:.0e}'}"
