"""The BigFile format: one long matrix of frames, and text files that name its rows.

    shape.txt         rows and width, in the first line
    id.txt            the row names, blank-separated, ISO-8859-1
    feature.bin       rows × width little-endian float32, no header
    video2frames.txt  text of a dictionary: video id -> list of row names in time order

The dictionary is text from the internet: a small scanner reads it, and it is never evaluated. The scanner also needs a
fraction of the memory that a general literal parser takes for the millions of names in the larger datasets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prvr.data.errors import DataError

BIGFILE_NAMES = ("shape.txt", "id.txt", "feature.bin", "video2frames.txt")

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_OPENING = re.compile(r"\s*\{")
_CLOSING = re.compile(r"\s*\}\s*\Z")
_ENTRY = re.compile(
    rf"\s*({_STRING})\s*:\s*[\[(]((?:\s*{_STRING}\s*,)*(?:\s*{_STRING})?)\s*[\])]\s*(,|(?=\}}))", re.DOTALL
)
_ONE_STRING = re.compile(_STRING, re.DOTALL)


@dataclass(frozen=True)
class BigFile:
    """An opened BigFile: ``rows[video]`` are the rows of ``matrix`` that make up a video, in time order."""

    folder: Path
    width: int
    matrix: NDArray[np.float32]  # (rows, width), memory-mapped
    rows: dict[str, NDArray[np.int64]]

    @staticmethod
    def open(folder: Path) -> BigFile:
        """Check the four files against each other and map the matrix."""
        missing = [name for name in BIGFILE_NAMES if not (folder / name).is_file()]
        if missing:
            raise DataError(f"{folder} lacks {', '.join(missing)}; a BigFile is made of {', '.join(BIGFILE_NAMES)}.")
        count, width = _read_shape(folder / "shape.txt")
        path = folder / "feature.bin"
        size, expected = path.stat().st_size, count * width * 4
        if size != expected:
            raise DataError(
                f"{path} has {size:,} bytes, but shape.txt ({count} rows of {width}) asks for {expected:,}; "
                "the file is cut short or belongs to another feature: download it again."
            )
        rows = _read_rows(folder, count)
        return BigFile(folder, width, np.memmap(path, dtype="<f4", mode="r", shape=(count, width)), rows)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Copy some rows into memory, (n, width)."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return np.array(self.matrix[rows[0] : rows[-1] + 1], dtype=np.float32)
        return np.asarray(self.matrix[rows], dtype=np.float32)

    def close(self) -> None:
        mapping = getattr(self.matrix, "_mmap", None)
        if mapping is not None:
            mapping.close()


def parse_frame_lists(text: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """The entries of a dictionary literal of string lists, one at a time.

    >>> list(parse_frame_lists("{'a': ['a_0', 'a_1'], \\"b\\": []}", Path("video2frames.txt")))
    [('a', ['a_0', 'a_1']), ('b', [])]
    """
    opening = _OPENING.match(text)
    if opening is None:
        raise DataError(f"{path} is not a dictionary; expected {{'video': ['frame', …], …}}.")
    position = opening.end()
    while not _CLOSING.match(text, position):
        entry = _ENTRY.match(text, position)
        if entry is None:
            found = " ".join(text[position : position + 60].split())
            raise DataError(
                f"{path}: cannot be read from character {position} ('{found}…'); expected 'video': ['frame', …]."
            )
        yield _unquote(entry[1], path), [_unquote(name, path) for name in _ONE_STRING.findall(entry[2])]
        position = entry.end()


def _unquote(quoted: str, path: Path) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return str(ast.literal_eval(quoted))
    except (SyntaxError, ValueError) as problem:
        raise DataError(f"{path}: the name {quoted[:60]} has a broken escape; write it without escapes.") from problem


def _read_shape(path: Path) -> tuple[int, int]:
    words = path.read_text(encoding="iso-8859-1").split()[:2]
    if len(words) < 2 or not all(re.fullmatch("[1-9][0-9]{0,12}", word) for word in words):
        raise DataError(f"{path} says '{' '.join(words)[:60]}'; expected two positive numbers, rows and width.")
    return int(words[0]), int(words[1])


def _read_rows(folder: Path, count: int) -> dict[str, NDArray[np.int64]]:
    # Split before decoding: as text, bytes inside of letters would count as blanks.
    names = [name.decode("iso-8859-1") for name in (folder / "id.txt").read_bytes().split()]
    if len(names) != count:
        raise DataError(
            f"{folder / 'id.txt'} names {len(names)} rows, but shape.txt says {count}; download both again."
        )
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) != count:
        twice = next(name for row, name in enumerate(names) if row_of[name] != row)
        raise DataError(f"{folder / 'id.txt'} names the row '{twice}' twice; row names are unique.")
    path = folder / "video2frames.txt"
    # Read as bytes-in-text, like id.txt, so that names match whatever their real encoding is.
    text = path.read_bytes().decode("iso-8859-1")
    rows: dict[str, NDArray[np.int64]] = {}
    for video, frames in parse_frame_lists(text, path):
        name = _as_utf8(video)
        if name in rows:
            raise DataError(f"{path} lists the video '{name}' twice; expected each video once.")
        if not frames:
            raise DataError(f"{path} lists no frames for the video '{name}'; remove it, or extract it again.")
        try:
            rows[name] = np.array([row_of[frame] for frame in frames], dtype=np.int64)
        except KeyError as unknown:
            raise DataError(
                f"{path}: the frame {unknown} of video '{name}' is not in id.txt; download both again."
            ) from unknown
    if not rows:
        raise DataError(f"{path} lists no videos; expected {{'video': ['frame', …], …}}.")
    return rows


def _as_utf8(name: str) -> str:
    """A video id as the caption files, which are UTF-8, spell it."""
    try:
        return name.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return name
