"""The ``prvr`` command: one file per group of commands, loaded when it is called."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from prvr.errors import did_you_mean

__all__ = ["main"]

COMMANDS = {  # name: (module with NAME_command(argv) -> exit code, one line of help)
    "train": ("train", "train a backbone, then TRACE on it, from feature files"),
    "sweep": ("sweep", "train many runs from one file: seeds, methods, datasets and settings"),
    "eval": ("evaluate", "rank a split with one or several runs: recalls of base and TRACE side by side"),
    "compare": ("compare", "tables over methods, datasets and seeds, with paired tests and published numbers"),
    "report": ("report", "write a page with every table and figure for a run, or compare two runs"),
    "explain": ("explain", "show why a query matches a video: evidence over time, as text and as a picture"),
    "transfer": ("transfer", "apply TRACE to a frozen backbone; anchors and λ are chosen on validation"),
    "import-checkpoint": ("import_checkpoint", "turn a checkpoint published by a method's authors into a run"),
    "push": ("push", "share a run on the Hugging Face hub, with a model card made from its evaluation"),
    "convert": ("convert", "write a run's query encoder as ONNX or torch.export, for other programs"),
    "zoo": ("zoo", "list all methods: size, inputs, published numbers, what is verified here"),
    "bench": ("bench", "measure speed on this machine, compared with its limits and a naive implementation"),
    "data": ("data", "make a dataset of your own annotated videos, check or convert one, or write a synthetic one"),
    "library": ("library", "index your own videos: add, watch, list, remove, status, verify, index"),
    "search": ("search", "find the moment in your videos that a sentence describes"),
    "export": ("export", "take moments away: clips, one film, a table, or a timeline for editing programs"),
    "serve": ("serve", "open a library as a page in the browser and as an API for programs"),
    "mcp": ("mcp", "let an assistant search a library and cut clips from it (Model Context Protocol)"),
    "prepare": ("prepare", "download an encoder's weights, after showing their size"),
    "doctor": ("doctor", "check this machine: versions, devices, encoders, disks, licences"),
    "demo": ("demo", "try everything on small films drawn here, in a few minutes, up to the page"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code.

    0: success. 1: an error that a person can fix. 2: a wrong command line. 130: Ctrl-C. 143: SIGTERM.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows fewer characters shows them as \u2013.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    if not words or words[0] in ("-h", "--help"):
        return _say(_help(), 0 if words else 2)
    if words[0] in ("-V", "--version"):
        from prvr import __version__

        return _say(f"prvr {__version__}", 0)
    if words[0] not in COMMANDS:
        text = f"prvr: no command {words[0]!r}.{did_you_mean(words[0], COMMANDS)}\n\n{_help()}"
        return _say(text, 2, sys.stderr)
    try:
        module = import_module(f"prvr.cli.{COMMANDS[words[0]][0]}")
        command = getattr(module, f"{words[0].replace('-', '_')}_command")
        from prvr.cli.errors import guarded
    except KeyboardInterrupt:
        return 130
    return guarded(command, words[1:])


def _say(text: str, exit_code: int, stream: TextIO | None = None) -> int:
    """Print a text and return the exit code, or that of a reader that went away."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        from prvr.terminal import READER_GONE, discard_output

        discard_output(stream or sys.stdout)
        return READER_GONE
    return exit_code


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "prvr: find the moment in a video library that a sentence describes, and see why.",
            "",
            "usage: prvr COMMAND …      (prvr COMMAND --help explains one)",
            "",
            *lines,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
