"""What a target is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Read = Callable[[bytes], None]
BREAK = b"\n=====\n"  # between the files of a document that is several


@dataclass(frozen=True)
class Target:
    """A parser. ``prepare`` makes a scratch folder ready and returns what reads one input."""

    name: str
    allowed: tuple[type[Exception], ...]
    documents: Sequence[bytes]
    prepare: Callable[[Path], Read]


def of_file(name: str, parse: Callable[[Path], object]) -> Callable[[Path], Read]:
    """Reads an input as one file of that name."""

    def prepare(scratch: Path) -> Read:
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def read(data: bytes) -> None:
            path.write_bytes(data)
            parse(path)

        return read

    return prepare


def of_files(names: Sequence[str], parse: Callable[[Path], object]) -> Callable[[Path], Read]:
    """Reads an input as several files of one folder; a part that is missing is a file that is missing."""

    def prepare(scratch: Path) -> Read:
        def read(data: bytes) -> None:
            parts = data.split(BREAK)
            for number, name in enumerate(names):
                path = scratch / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if number < len(parts):
                    path.write_bytes(parts[number])
                else:
                    path.unlink(missing_ok=True)
            parse(scratch)

        return read

    return prepare
