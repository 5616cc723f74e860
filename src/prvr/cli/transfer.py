"""``prvr transfer``: TRACE on a frozen backbone, chosen on validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from prvr.cli.console import print_table
from prvr.evaluation.transfer import Transfer, encode_split, transfer
from prvr.training import Run, RunError, choose_device
from prvr.training.splits import load_split, place


@dataclass(frozen=True)
class TransferArguments:
    """TRACE on frozen backbones: anchors pooled from their own tokens stand in for registers.

    Anchor and λ are chosen on the validation split only and then fixed; no parameter of the backbone changes.
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")]
    """folders of runs"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset [default: the one the run was trained on]"""
    split: str = "test"
    """split to report"""
    weights: str | None = None
    """which weights [default: the run's selection]"""
    gate: bool = False
    """scale each pair's evidence by how certain its anchors' activation is (not in the paper)"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""


def main(argv: list[str]) -> int:
    arguments = tyro.cli(TransferArguments, prog="prvr transfer", args=argv)
    if not arguments.runs:
        raise RunError("name at least one run: prvr transfer RUN …")
    console, device = Console(), choose_device(arguments.device)
    table = Table("backbone", "dataset", "base SumR", "+route SumR", "ΔSumR", "95 % interval", "anchor", "λ", box=None)
    for path in arguments.runs:
        run = Run(path)
        config = run.config
        model, _ = run.load_model(arguments.weights, device)
        splits = []
        for split in (config.data.validation_split, arguments.split):
            console.print(f"encoding {split} with {path}", style="dim", soft_wrap=True)
            dataset = place(load_split(config, arguments.data or run.data, split), device)
            splits.append(encode_split(model.backbone, dataset))
        console.print("choosing anchor and λ on validation", style="dim")
        operator = replace(config.trace, gate=arguments.gate or config.trace.gate)
        name = f"{config.method}, gated" if operator.gate else config.method
        table.add_row(name, config.data.collection, *_cells(transfer(*splits, config=operator)))
    print_table(console, table)
    return 0


def _cells(found: Transfer) -> list[str]:
    c = found.comparison
    return [
        f"{found.base.sum_r:.2f}",
        f"{found.final.sum_r:.2f}",
        f"{c.delta_sum_r:+.2f}",
        f"[{c.low:+.2f}, {c.high:+.2f}]".replace("[", r"\["),
        found.anchor,
        f"{found.fusion_weight:.3f}",
    ]
