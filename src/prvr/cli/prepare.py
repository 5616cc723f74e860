"""``prvr prepare``: download an encoder's weights, after showing their size."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from prvr.media import SHORT_NAMES, EncoderError, download, plan_download


@dataclass(frozen=True)
class PrepareArguments:
    """Download the weights of an image–text or sentence encoder from the Hugging Face hub. No other command downloads.

    ENCODER is a hub name (google/siglip2-base-patch16-224) or a short name (siglip2, clip, minilm). The size is shown
    first, and nothing is downloaded until you agree. For a machine without a network, download on another one, copy
    the folder that is printed at the end, and give that folder as --encoder. The encoder `plain` needs no weights.
    """

    encoder: tyro.conf.Positional[str]
    """hub name or short name"""
    yes: bool = False
    """download without asking"""


def prepare_command(argv: list[str]) -> int:
    arguments = tyro.cli(PrepareArguments, prog="prvr prepare", args=argv)
    console = Console()
    if arguments.encoder == "plain":
        console.print("plain has no weights: there is nothing to download")
        return 0
    if Path(arguments.encoder).is_dir():
        console.print(f"{arguments.encoder} is a folder: it can be used as --encoder directly", soft_wrap=True)
        return 0
    plan = plan_download(SHORT_NAMES.get(arguments.encoder, arguments.encoder))
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


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise EncoderError("there is no terminal to ask on: add --yes to download that much")
    return input("download it? [y/N] ").strip().lower() in ("y", "yes")
