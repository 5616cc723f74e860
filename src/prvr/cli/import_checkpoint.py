"""``prvr import-checkpoint``: turn published weights into a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prvr.terminal import Console
from prvr.training import Run, import_checkpoint


@dataclass(frozen=True)
class ImportArguments:
    """Turn a checkpoint published by a method's authors (.ckpt, .pth) into a run for `prvr eval` and `prvr transfer`.

    Only weights are read: a file that would run code is refused. Every key must be used and have the expected shape;
    otherwise the message lists those that do not.
    """

    method: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD")]
    """name of the method, such as dreamprvr (`prvr zoo` lists them)"""
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """the checkpoint"""
    dataset: str
    """preset that describes the data: activitynet, charades, tvr or a .toml file"""
    data: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """folder with the dataset"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """folder to write [default: runs/DATASET-METHOD-imported]"""
    config: Annotated[Path | None, tyro.conf.arg(metavar="JSON")] = None
    """the authors' hyper-parameters, if the checkpoint has none (an opt.json next to it is found)"""


def import_checkpoint_command(argv: list[str]) -> int:
    arguments = tyro.cli(ImportArguments, prog="prvr import-checkpoint", args=argv)
    name = f"{Path(arguments.dataset).stem}-{arguments.method}-imported"
    run = Run(arguments.out or Path("runs") / name)
    model = import_checkpoint(
        arguments.method,
        arguments.file,
        run,
        dataset=arguments.dataset,
        data=arguments.data,
        config=arguments.config,
    )
    count = sum(parameter.numel() for parameter in model.backbone.parameters())
    console = Console()
    console.print(
        f"{arguments.file}: every key used, {count / 1e6:.2f} M parameters",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"written to {run.path}; next: prvr eval {run.path}", highlight=False, soft_wrap=True)
    return 0
