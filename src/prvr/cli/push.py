"""``prvr push``: share a run on the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from prvr.cli.console import count, format_bytes
from prvr.cli.hub_runs import RunPath
from prvr.sharing import SCHEME, HubAddress, SharedRun, SharingError, evaluations, model_card, push_run, write_layout
from prvr.terminal import Console
from prvr.training import Run


@dataclass(frozen=True)
class PushArguments:
    """Share a run: `prvr push RUN OWNER/NAME` puts its weights, configuration and a model card on the Hugging Face hub.

    The card is made from what `prvr eval` has saved in the run. Paths of this machine are left out, and so is your
    data. A token comes from HF_TOKEN or `hf auth login`. Whoever may read the repository uses it in place of a run:
    `prvr eval hf://OWNER/NAME --data DIR`; also `prvr report`, `explain`, `transfer`, `train --from`, `library add
    --model`.

    `prvr push RUN --to FOLDER` writes the same files to a folder and needs no network. Every command takes that folder
    in place of a run, too.
    """

    run: Annotated[tyro.conf.Positional[RunPath], tyro.conf.arg(metavar="RUN")]
    """folder of a run"""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="OWNER/NAME")] = ""
    """repository on the hub; it is created if there is none"""
    to: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """write to this folder instead of the hub (with OWNER/NAME: the name that the card states)"""
    private: bool = False
    """create the repository as a private one"""
    weights: Literal["average", "best", "last"] | None = None
    """which weights [default: the run's selection]"""
    license: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """licence that the card states, by its name on the hub, such as apache-2.0"""
    message: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """message of the commit"""
    dry_run: bool = False
    """only show the card and what would be pushed"""


def push_command(argv: list[str]) -> int:
    arguments = tyro.cli(PushArguments, prog="prvr push", args=argv)
    if not arguments.name and arguments.to is None:
        raise SharingError("say where to: prvr push RUN OWNER/NAME, or prvr push RUN --to FOLDER")
    name = HubAddress.for_push(arguments.name).name if arguments.name else ""
    shared = SharedRun.of(Run(arguments.run), arguments.weights)
    card = model_card(shared, name or Path(arguments.to or "").resolve().name, licence=arguments.license)
    console, notes = Console(highlight=False, soft_wrap=True), Console(stderr=True, soft_wrap=True)
    if not evaluations(shared):
        notes.print(f"the card has no recalls: run `prvr eval {arguments.run}` first to have them")
    if arguments.dry_run:
        files = [shared.run.path / "weights" / weights / "model.safetensors" for weights in shared.parts.values()]
        console.print(card)
        size = format_bytes(sum(file.stat().st_size for file in files))
        where = arguments.to or f"{SCHEME}{name}{' (private)' if arguments.private else ''}"
        what = f"{count(len(files), 'file')} of weights ({size}), config.json and this card"
        console.print(f"would write {what} to {where}")
    elif arguments.to is not None:
        files = write_layout(shared, arguments.to, card)
        console.print(f"wrote {', '.join(file.name for file in files)} to {arguments.to}")
    else:
        place = push_run(shared, arguments.name, card, private=arguments.private, message=arguments.message)
        console.print(f"pushed to {place}; next: prvr eval {SCHEME}{name} --data DIR")
    return 0
