"""``prvr transfer``: apply TRACE to a frozen backbone, with settings chosen on validation."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from prvr.cli.console import print_table
from prvr.cli.hub_runs import RunPath
from prvr.evaluation import (
    PAPER_ANCHORS,
    PAPER_LAMBDAS,
    TRANSFER_LAMBDAS,
    Transfer,
    encode_split,
    transfer_trace,
    write_columns,
)
from prvr.files import write_whole
from prvr.terminal import Console
from prvr.training import Run, RunError, choose_device, load_split, move_if_it_fits

_SAME_SPLIT = (
    "WARNING: {} and {} hold the same queries, so anchor and λ were chosen on the very split that is reported. The "
    "gain below is too high: choose on queries that are set aside (a validation split of its own)."
)


@dataclass(frozen=True)
class TransferArguments:
    """Apply TRACE to frozen backbones. Anchors pooled from the backbone's own tokens replace the registers.

    Anchor and λ are chosen on the validation split only and then fixed; no parameter of the backbone changes. The
    validation SumR of every choice and the ranks of all queries are saved in RUN/transfer.

    By default, all kinds of anchors and more values of λ are tried than the paper's Table S1 selects from; `--grid
    paper` tries those alone. λ = 0 is among them: where no anchor helps on validation, TRACE is left out.
    """

    runs: Annotated[tyro.conf.Positional[tuple[RunPath, ...]], tyro.conf.arg(metavar="RUN")]
    """folders of runs"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset [default: the one the run was trained on]"""
    split: str = "test"
    """split to report"""
    weights: str | None = None
    """which weights [default: the run's selection]"""
    grid: Literal["wide", "paper"] = "wide"
    """which anchors and λ are tried: all, or the paper's (temporal-4/6/8 and global-4; λ from 0.01 to 0.2)"""
    anchors: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KIND …")] = ()
    """try these anchors instead: temporal-K, global-K, hybrid, or registers (where the backbone has them)"""
    lambdas: Annotated[tuple[float, ...], tyro.conf.arg(metavar="λ …")] = ()
    """try these values of λ instead"""
    gate: bool = False
    """scale each pair's evidence by how certain its anchors' activation is (not in the paper)"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""


def transfer_command(argv: list[str]) -> int:
    arguments = tyro.cli(TransferArguments, prog="prvr transfer", args=argv)
    if not arguments.runs:
        raise RunError("name at least one run: prvr transfer RUN …")
    console, device = Console(), choose_device(arguments.device)
    columns = ("backbone", "dataset", "base SumR", "+route SumR", "ΔSumR", "95 % interval", "anchor", "λ", "val Δ")
    table = Table(*columns, box=None)
    for path in arguments.runs:
        run = Run(path)
        data = arguments.data or Path(run.data)
        config = run.config_for(data)
        model, _ = run.load_model(arguments.weights, device)
        splits = []
        for split in (config.data.validation_split, arguments.split):
            console.print(f"encoding {split} with {path}", style="dim", soft_wrap=True)
            dataset = move_if_it_fits(load_split(config, data, split), device)
            splits.append(encode_split(model.backbone, dataset))
        console.print("choosing anchor and λ on validation", style="dim")
        operator = replace(config.trace, gate=arguments.gate or config.trace.gate)
        name = f"{config.method}, gated" if operator.gate else config.method
        found = transfer_trace(*splits, **_grid(arguments), config=operator)
        table.add_row(name, config.data.collection, *_cells(found))
        saved = f"{arguments.split}-gated" if operator.gate else arguments.split
        _save(run.path / "transfer", saved, found, splits[-1].query_ids)
        if found.same_split:
            console.print(_SAME_SPLIT.format(config.data.validation_split, arguments.split), style="bold red")
    print_table(console, table)
    return 0


def _grid(arguments: TransferArguments) -> dict[str, Any]:
    """The choices to try, as arguments of ``transfer_trace``."""
    kinds: Sequence[str] | None = arguments.anchors or (PAPER_ANCHORS if arguments.grid == "paper" else None)
    if any(not math.isfinite(value) or value < 0 for value in arguments.lambdas):
        raise RunError(f"--lambdas {' '.join(map(str, arguments.lambdas))}: values must be numbers of at least 0")
    lambdas = arguments.lambdas or (PAPER_LAMBDAS if arguments.grid == "paper" else TRANSFER_LAMBDAS)
    return {"kinds": kinds, "lambdas": lambdas}


def _save(folder: Path, name: str, found: Transfer, query_ids: Sequence[str]) -> None:
    folder.mkdir(exist_ok=True)
    write_whole(folder / f"{name}.json", json.dumps(found.as_dict(), indent=1))
    ranks = {scoring: column.tolist() for scoring, column in found.ranks.items()}
    write_columns(folder / f"{name}-ranks.csv", {"query_id": query_ids, **ranks})


def _cells(found: Transfer) -> list[str]:
    c = found.comparison
    return [
        f"{found.base.sum_r:.2f}",
        f"{found.final.sum_r:.2f}",
        f"{c.delta_sum_r:+.2f}",
        f"[{c.low:+.2f}, {c.high:+.2f}]".replace("[", r"\["),
        f"{found.tokens[:-1]} {found.anchor}" if found.fusion_weight else "none helps",
        f"{found.fusion_weight:.3f}",
        f"{found.validation_gain:+.2f}",
    ]
