"""Reads text files as they are downloaded: plain, gzipped, or inside an archive."""

from __future__ import annotations

import gzip
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from prvr.data.errors import DataError

MOST_TEXT = 256 << 20  # bytes that a compressed file may unpack to; the longest caption files have a tenth
_UNREADABLE = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, struct.error, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError),  # an encrypted archive, or a compression that Python does not know
    UnicodeDecodeError,  # an archive whose files have damaged names
)


def text_lines(path: Path, collection: str = "") -> Iterator[tuple[int, str]]:
    """The non-blank lines of a UTF-8 file, stripped, with their numbers."""
    try:
        raw = _bytes(path, collection)
    except _UNREADABLE as problem:
        raise DataError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}.") from problem
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as problem:
            raise DataError(f"{path}:{number}: not UTF-8 ({problem.reason}); save the file as UTF-8.") from problem
        if text:
            yield number, text


def _bytes(path: Path, collection: str) -> bytes:
    """A file's content, unpacked; of an archive, the one label file that belongs to the collection."""
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return _unpacked(path, file)
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        labels = [name for name in archive.namelist() if name.endswith(".gt.jsonl")]
        found = [name for name in labels if name.rpartition("/")[2].startswith(collection)]
        if len(found) != 1:
            raise DataError(
                f"{path} holds {len(found)} label files for '{collection}' among {', '.join(labels) or 'none at all'}; "
                "unpack it and give the right *.gt.jsonl."
            )
        with archive.open(found[0]) as file:
            return _unpacked(path, file)


def _unpacked(path: Path, file: IO[bytes] | gzip.GzipFile) -> bytes:
    """The content of a compressed file, which may be much larger than the file itself."""
    content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise DataError(f"{path} unpacks to more than {MOST_TEXT >> 20} MiB of text; unpack it first.")
    return content
