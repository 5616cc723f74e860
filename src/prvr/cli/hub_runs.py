"""``hf://OWNER/NAME`` in place of a run: it is fetched, and the command sees the folder of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import tyro


def is_shared(word: str) -> bool:
    """Whether a word names a run on the hub, or a folder in its layout."""
    if word.startswith("hf://") or not os.path.isfile(os.path.join(word, "config.json")):
        return word.startswith("hf://")
    from prvr.sharing import is_layout  # imported here: few commands need it

    return is_layout(Path(word))


def local_run(word: str) -> str:
    """The folder of a run on this machine, where a word names a shared one; other words as they are."""
    if not is_shared(word):
        return word
    from prvr.sharing import load_run

    return str(load_run(word).path)


def with_loaded_runs(argv: Sequence[str], *options: str) -> list[str]:
    """The words of a command line, where shared runs that these options name are runs on this machine.

    >>> with_loaded_runs(["charades", "--from", "runs/mine", "--from=runs/other"], "--from")
    ['charades', '--from', 'runs/mine', '--from=runs/other']
    """
    words, before = [], ""
    for word in argv:
        name, mark, value = word.partition("=")
        if before in options:
            word = local_run(word)
        elif mark and name.replace("_", "-") in options:
            word = f"{name}={local_run(value)}"
        before = name.replace("_", "-") if not mark else ""
        words.append(word)
    return words


_LOADED = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="RUN",
    instance_from_str=lambda words: Path(local_run(words[0])),
    is_instance=lambda value: isinstance(value, Path),
    str_from_instance=lambda path: [str(path)],
)
RunPath: TypeAlias = Annotated[Path, _LOADED]  # of an argument that names a run, which may be a shared one
