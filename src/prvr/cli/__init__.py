"""The ``prvr`` command: one file per group of commands, loaded when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from prvr import __version__

_COMMANDS = {  # name: (module with main(argv) -> int, one line of help)
    "train": ("prvr.cli.train", "train a backbone, then TRACE on it, from feature files"),
    "eval": ("prvr.cli.evaluate", "recalls of one or several runs, base and TRACE side by side"),
    "report": ("prvr.cli.report", "one page with every table and figure for a run, or two runs compared"),
    "explain": ("prvr.cli.explain", "why a query matches a video: evidence over time, as text and as a picture"),
    "transfer": ("prvr.cli.transfer", "TRACE on a frozen backbone: anchors and λ chosen on validation"),
    "import-checkpoint": ("prvr.cli.import_checkpoint", "turn an authors' checkpoint into a run"),
    "zoo": ("prvr.cli.zoo", "all methods in one table: size, needs, published numbers, what is verified"),
    "bench": ("prvr.cli.bench", "how fast this machine does the work, beside its limits and the naive form"),
    "data": ("prvr.cli.data", "check a dataset, convert its features, or write a synthetic world"),
    "library": ("prvr.cli.library", "your own videos: add, list, remove, status, verify"),
    "search": ("prvr.cli.search", "find the moment in your videos that a sentence describes"),
    "serve": ("prvr.cli.serve", "a library as a page in the browser, and as an API for programs"),
    "prepare": ("prvr.cli.prepare", "fetch an encoder's weights, after saying how much that is"),
    "doctor": ("prvr.cli.doctor", "versions, devices, encoders, disks, licences; whether all is in order"),
    "demo": ("prvr.cli.demo", "all of it on small films drawn here, in a few minutes, up to the page"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: 0 when all went well, 1 on an error a user can fix, 2 on a wrong command line, 130 on Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"prvr {__version__}")
        return 0
    if words[0] not in _COMMANDS:
        print(f"prvr: no command {words[0]!r}\n\n{_help()}", file=sys.stderr)
        return 2
    try:
        module = import_module(_COMMANDS[words[0]][0])
        from prvr.cli.errors import guarded
    except KeyboardInterrupt:
        return 130
    return guarded(module.main, words[1:])


def _help() -> str:
    width = max(map(len, _COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, (_, text) in _COMMANDS.items()]
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
