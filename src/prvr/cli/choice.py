"""Choose the encoder of a new library: the prepared one, or an answer at the terminal."""

from __future__ import annotations

import sys
from dataclasses import replace

from prvr.cli.prepare import prepare_command
from prvr.library import PLAIN_LIMITS, LibraryError, LibrarySettings, default_encoder, usual_encoder
from prvr.media import prepared_encoders
from prvr.terminal import Console


def choose_encoder(settings: LibrarySettings) -> LibrarySettings:
    """Settings with an encoder. Says which one it took; asks where none is prepared and there is a terminal.

    Raises:
        LibraryError: none is prepared, and there is no terminal to ask on.
    """
    if settings.encoder or settings.model is not None:
        return settings
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if prepared_encoders() or not sys.stdin.isatty():
        name = default_encoder()
        console.print(f"encoder: {name}, which is prepared on this machine (--encoder names another)")
    else:
        name = _ask(console)
    return replace(settings, encoder=name)


def _ask(console: Console) -> str:
    usual = usual_encoder()
    console.print("No image–text encoder is prepared on this machine. Which encoder should the library use?")
    console.print(f"  1  {usual.name}: {usual.use}; about {usual.megabytes:,} MB to download")
    console.print(f"  2  plain: nothing to download, but it {PLAIN_LIMITS}")
    try:
        answer = input("1 or 2? ").strip().lower()
    except EOFError:
        answer = ""
    if answer in ("2", "plain"):
        return "plain"
    if answer not in ("1", usual.name):
        raise LibraryError("nothing was chosen, and nothing was created: answer 1 or 2, or name an --encoder")
    prepare_command([usual.name, "--yes"])
    return usual.name
