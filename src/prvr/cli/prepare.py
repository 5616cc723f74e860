"""``prvr prepare``: fetch an encoder's weights, after saying how much that is."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from prvr.media import SHORT_NAMES, EncoderError, download, plan_download


@dataclass(frozen=True)
class PrepareArguments:
    """Fetch the weights of an image–text or sentence encoder from the Hugging Face hub. Nothing else ever downloads.

    ENCODER is a hub name (google/siglip2-base-patch16-224) or a short one (siglip2, clip, minilm). The size is said
    first, and nothing is fetched without a yes. For a machine without a network, fetch elsewhere, copy the folder that
    is named at the end, and give that folder wherever an encoder is asked for. The encoder `plain` needs no weights.
    """

    encoder: tyro.conf.Positional[str]
    """hub name or short name"""
    yes: bool = False
    """fetch without asking"""


def main(argv: list[str]) -> int:
    arguments = tyro.cli(PrepareArguments, prog="prvr prepare", args=argv)
    console = Console()
    if arguments.encoder == "plain":
        console.print("plain has no weights: there is nothing to fetch")
        return 0
    if Path(arguments.encoder).is_dir():
        console.print(f"{arguments.encoder} is a folder: it is used as it is", soft_wrap=True)
        return 0
    plan = plan_download(SHORT_NAMES.get(arguments.encoder, arguments.encoder))
    console.print(
        f"{plan.name}: {plan.bytes / 1e6:,.1f} MB in {len(plan.files)} files (revision {plan.revision[:12]})",
        soft_wrap=True,
        highlight=False,
    )
    if not (arguments.yes or _agreed()):
        console.print("nothing was fetched")
        return 1
    folder = download(plan)
    console.print(f"ready: {folder}", soft_wrap=True, highlight=False)
    return 0


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise EncoderError("nobody can be asked here: add --yes to fetch that much")
    return input("fetch it? [y/N] ").strip().lower() in ("y", "yes")
