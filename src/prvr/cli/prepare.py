"""``prvr prepare``: download an encoder's weights, after showing their size."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from prvr.media import SHORT_NAMES, SPEECH_MODELS, EncoderError, download, plan_download


@dataclass(frozen=True)
class PrepareArguments:
    """Download the weights of an encoder from the Hugging Face hub. No other command downloads anything.

    The size is shown first, and nothing is downloaded until you agree. ENCODER is a hub name such as
    google/siglip2-base-patch16-224, or a short name: siglip2 or clip (pictures and sentences), minilm (sentences, for
    subtitles), whisper-tiny, whisper-base, whisper-small, whisper-medium or whisper-large-v3 (speech, for `prvr library
    add --speech`). The encoder `plain` needs no weights.

    For a machine without a network, run this on another one, copy the folder that is printed at the end, and give that
    folder wherever an encoder is expected.
    """

    encoder: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENCODER")]
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
        console.print(f"{arguments.encoder} is a folder: it can be used as it is", soft_wrap=True)
        return 0
    plan = plan_download((SHORT_NAMES | SPEECH_MODELS).get(arguments.encoder, arguments.encoder))
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
        raise EncoderError("There is no terminal to ask on. Add --yes to download.")
    return input("download it? [y/N] ").strip().lower() in ("y", "yes")
