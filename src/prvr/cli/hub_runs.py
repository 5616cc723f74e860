"""``hf://OWNER/NAME`` in place of a run: it is fetched, and the command sees the folder of a run."""

from __future__ import annotations

from pathlib import Path

_TAKE_RUNS = ["train", "eval", "report", "explain", "transfer", "push", "convert", "library", "sweep", "compare"]
_SCHEME = "hf://"


def with_loaded_runs(command: str, argv: list[str]) -> list[str]:
    """A command's words, where addresses on the hub and folders in its layout are runs on this machine.

    An option's value may follow the option or an equals sign: ``--from hf://ann/model``, ``--from=hf://ann/model``.

    >>> with_loaded_runs("eval", ["runs/mine", "--split", "test"])
    ['runs/mine', '--split', 'test']
    """
    return [_loaded(argv, number) for number in range(len(argv))] if command in _TAKE_RUNS else argv


def _loaded(argv: list[str], number: int) -> str:
    option, equals, value = argv[number].rpartition("=") if argv[number].startswith("--") else ("", "", argv[number])
    if not value.startswith(_SCHEME) and not _is_layout(value):
        return argv[number]
    from prvr.sharing import SharingError, load_run  # imported here: few commands need it

    if "--resume" in (option, argv[number - 1] if number else ""):
        raise SharingError(f"{value} cannot be resumed, because it has no checkpoints: start from it with --from")
    return f"{option}{equals}{load_run(value).path}"


def _is_layout(word: str) -> bool:
    """Whether a word is a folder that `prvr push --to` wrote."""
    folder = Path(word)
    names = ("model.safetensors", "config.json")
    return bool(word) and all((folder / name).is_file() for name in names) and not (folder / "run.json").exists()
