"""What has been indexed but not committed. Long videos wait in a file without a name, which a kill removes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import torch

from prvr.library.store.arrays import Section
from prvr.library.store.catalogue import NewVideo
from prvr.media.subtitles import TimedLine
from prvr.scoring import raw_bytes

HELD = 1 << 26  # bytes of sections that wait in memory; more go to disk


class Pending:
    """Sections of one track of one video, in order."""

    def __init__(self, folder: Path, held: int = HELD):
        self.folder, self.held = folder, held
        self.memory: list[Section] = []
        self.bytes = 0
        self.file: IO[bytes] | None = None
        self.written: list[tuple[Section, dict[str, int]]] = []  # empty arrays of the right shape, and where bytes lie

    def add(self, section: Section) -> None:
        size = sum(array.numel() * array.element_size() for array in section.arrays.values())
        if self.file is None and self.bytes + size <= self.held:
            self.memory.append(section)
            self.bytes += size
            return
        if self.file is None:
            self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 (lives as long as this)
        places = {}
        for name, array in section.arrays.items():
            places[name] = self.file.tell()
            self.file.write(raw_bytes(array))
        shapes = {name: array.to("meta") for name, array in section.arrays.items()}
        self.written.append((Section(section.about, shapes, section.tokens), places))

    def __iter__(self) -> Iterator[Section]:
        yield from self.memory
        for section, places in self.written:
            assert self.file is not None
            arrays = {}
            for name, shape in section.arrays.items():
                self.file.seek(places[name])
                read = bytearray(self.file.read(shape.numel() * shape.element_size()))
                arrays[name] = torch.frombuffer(read, dtype=shape.dtype).view(shape.shape)
            yield Section(section.about, arrays, section.tokens)

    def __len__(self) -> int:
        return len(self.memory) + len(self.written)


@dataclass
class Indexed:
    """A file that has been looked at: a video with its sections, or a failure with its reason."""

    video: NewVideo
    tracks: dict[str, Pending] = field(default_factory=dict)
    lines: tuple[TimedLine, ...] = ()
