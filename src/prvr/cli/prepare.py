"""``prvr prepare``: download an encoder's weights, after showing their size; or list the encoders."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from prvr.cli.console import print_table
from prvr.errors import did_you_mean
from prvr.media import (
    SHORT_NAMES,
    SPEECH_MODELS,
    EncoderError,
    download,
    find_model,
    plan_download,
    prepared_encoders,
    presets,
)
from prvr.terminal import Console

_LEGEND = """here: on this machine. MB: to download, about. frame: side of its pictures, in pixels.
GFLOPs: per frame; fast up to 20, medium up to 100, slow above.
The licence of clip and clip-base is that of OpenAI's repository; their model cards name none."""


@dataclass(frozen=True)
class PrepareArguments:
    """Download the weights of an encoder from the Hugging Face hub. No other command downloads anything.

    The size is shown first, and nothing is downloaded until you agree. ENCODER is a short name that --list shows, or a
    hub name such as google/siglip2-base-patch16-384. The encoder `plain` needs no weights.
    Speech models, for `prvr library add --speech`: whisper-tiny, -base, -small, -medium, -large-v3.

    For a machine without a network, run this on another one, copy the folder that is printed at the end, and give that
    folder wherever an encoder is expected.
    """

    encoder: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="ENCODER")] = None
    """short name or hub name"""
    list: bool = False
    """show the encoders with a short name, and which are on this machine"""
    json: bool = False
    """with --list: as JSON"""
    yes: bool = False
    """download without asking"""


def prepare_command(argv: list[str]) -> int:
    arguments = tyro.cli(PrepareArguments, prog="prvr prepare", args=argv)
    console = Console()
    if arguments.list:
        _list_as_json() if arguments.json else _list(console)
        return 0
    if arguments.encoder is None:
        raise EncoderError("Name an encoder, for example: prvr prepare siglip2. To see them all: prvr prepare --list")
    if arguments.encoder == "plain":
        console.print("plain has no weights: there is nothing to download")
        return 0
    if Path(arguments.encoder).is_dir():
        console.print(f"{arguments.encoder} is a folder: it can be used as it is", soft_wrap=True)
        return 0
    if "/" not in arguments.encoder and arguments.encoder not in (names := [*SHORT_NAMES, *SPEECH_MODELS]):
        hint = did_you_mean(arguments.encoder, ["plain", *names])
        raise EncoderError(f"There is no encoder {arguments.encoder!r}.{hint} To see them all: prvr prepare --list")
    plan = plan_download(SPEECH_MODELS.get(arguments.encoder, arguments.encoder))
    console.print(
        f"{plan.name}: {plan.bytes / 1e6:,.1f} MB in {len(plan.files)} files (revision {plan.revision[:12]})",
        soft_wrap=True,
        highlight=False,
    )
    if not (arguments.yes or _agreed()):
        console.print("nothing was downloaded")
        return 1
    folder = download(plan)
    console.print(f"ready: {folder}", soft_wrap=True, highlight=False)
    return 0


def _list(console: Console) -> None:
    facts = Table("name", "here", "MB", "licence", "frame", "GFLOPs", "speed", box=None, pad_edge=False)
    uses = Table(box=None, show_header=False, pad_edge=False)
    for column in (2, 4, 5):
        facts.columns[column].justify = "right"
    for preset in presets():
        here = "yes" if find_model(preset.hub) else ""
        effort = f"{preset.gflops:g}" if preset.gflops else ""
        side = str(preset.side or "")
        facts.add_row(preset.name, here, f"{preset.megabytes:,}", preset.licence, side, effort, preset.speed)
        uses.add_row(preset.name, preset.use)
    uses.add_row("plain", "needs no weights; knows colours, shapes and motion only")
    short_names = {preset.name for preset in presets()}
    others = [name for name in prepared_encoders() if name not in short_names]
    also = f"\nAlso on this machine: {', '.join(others)}" if others else ""
    for table in (facts, uses):
        print_table(console, table)
        console.print()
    console.print(_LEGEND + also, highlight=False, soft_wrap=True)


def _list_as_json() -> None:
    rows = []
    for preset in presets():
        folder = find_model(preset.hub)
        rows.append({**asdict(preset), "speed": preset.speed, "folder": str(folder) if folder else None})
    print(json.dumps({"encoders": rows, "prepared": prepared_encoders()}, indent=1))


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise EncoderError("There is no terminal to ask on. Add --yes to download.")
    return input("download it? [y/N] ").strip().lower() in ("y", "yes")
