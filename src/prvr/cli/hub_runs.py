"""``hf://OWNER/NAME`` in place of a run: it is fetched, and the command sees the folder of a run."""

from __future__ import annotations

import os
from pathlib import Path

_TAKE_RUNS = ["train", "eval", "report", "explain", "transfer", "push", "convert", "library", "sweep", "compare"]


def with_loaded_runs(command: str, argv: list[str]) -> list[str]:
    """A command's words, where addresses on the hub and folders in its layout are runs on this machine.

    An option's value may follow the option or an equals sign: ``--from hf://ann/model``, ``--from=hf://ann/model``.

    >>> with_loaded_runs("eval", ["runs/mine", "--split", "test"])
    ['runs/mine', '--split', 'test']
    """
    return [_loaded(argv, number) for number in range(len(argv))] if command in _TAKE_RUNS else argv


def _loaded(argv: list[str], number: int) -> str:
    option, equals, value = argv[number].rpartition("=") if argv[number].startswith("--") else ("", "", argv[number])
    if not value.startswith("hf://") and not os.path.isfile(os.path.join(value, "config.json")):
        return argv[number]
    from prvr.sharing import SCHEME, SharingError, is_layout, load_run  # imported here: few commands need it

    if not value.startswith(SCHEME) and not is_layout(Path(value)):
        return argv[number]
    if "--resume" in (option, argv[number - 1] if number else ""):
        raise SharingError(f"{value} cannot be resumed, because it has no checkpoints: start from it with --from")
    return f"{option}{equals}{load_run(value).path}"
