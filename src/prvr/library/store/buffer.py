"""Videos that are indexed but not committed yet. Sections of long videos wait in an unnamed temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from prvr.library.store.arrays import Section
from prvr.library.store.catalogue import NewVideo
from prvr.media import TimedLine
from prvr.scoring import array_bytes

MEMORY_LIMIT = 1 << 26  # bytes of sections that wait in memory; more go to disk


class SectionBuffer:
    """The sections of one track of one video, in order.

    The temporary file is unnamed, so the system deletes it if the process dies.
    """

    def __init__(self, folder: Path | None = None, memory_limit: int | None = None):
        self.folder = folder
        self.memory_limit = MEMORY_LIMIT if memory_limit is None else memory_limit
        self.memory: list[Section] = []
        self.bytes = 0
        self.file: IO[bytes] | None = None
        self.written: list[tuple[Section, dict[str, int]]] = []  # sections without memory, and where their bytes lie

    def add(self, section: Section) -> None:
        size = sum(array.nbytes for array in section.arrays.values())
        if self.file is None and self.bytes + size <= self.memory_limit:
            self.memory.append(section)
            self.bytes += size
            return
        if self.file is None:
            self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 (lives as long as the buffer)
        places = {}
        for name, array in section.arrays.items():
            places[name] = self.file.tell()
            self.file.write(array_bytes(array))
        shapes = {name: np.broadcast_to(array.dtype.type(0), array.shape) for name, array in section.arrays.items()}
        self.written.append((Section(section.about, shapes, section.tokens), places))

    def __iter__(self) -> Iterator[Section]:
        yield from self.memory
        for section, places in self.written:
            assert self.file is not None
            arrays = {}
            for name, shape in section.arrays.items():
                self.file.seek(places[name])
                read = bytearray(self.file.read(shape.nbytes))
                arrays[name] = np.frombuffer(read, shape.dtype).reshape(shape.shape)
            yield Section(section.about, arrays, section.tokens)

    def __len__(self) -> int:
        return len(self.memory) + len(self.written)


@dataclass
class IndexedVideo:
    """A file that was indexed: a video with its sections and subtitle lines, or a failure with its reason."""

    video: NewVideo
    tracks: dict[str, SectionBuffer] = field(default_factory=dict)
    lines: tuple[TimedLine, ...] = ()
    repeats: int = 0  # frames that were not encoded again, because they look like the last one that was
