"""Sections in memory, as a search scores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.library.store.arrays import Section
from prvr.library.store.rows import PAGED_ARRAYS, WITNESS_FACTS, WITNESS_FRAMES, bytes_checksum
from prvr.scoring import NumpyGallery, array_bytes

if TYPE_CHECKING:
    from prvr.scoring import Gallery

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SectionBlock:
    """Sections in memory: the arrays of a gallery with a row for each."""

    about: dict[str, Any]  # what is not in the arrays: weights, TRACE's numbers
    arrays: dict[str, NDArray[Any]]
    query_projection: NDArray[np.float32] | None  # TRACE's, (D, D)
    stays: bool = False  # in memory after a search too
    whole: bool = True  # False: zeros stand for rows that cannot be read

    def __len__(self) -> int:
        return len(self.arrays["pages"])

    @cached_property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def numpy_gallery(self) -> NumpyGallery:
        """The sections, to be scored with NumPy."""
        return NumpyGallery(self.about, self.arrays, self.query_projection)

    @cached_property
    def gallery(self) -> Gallery:
        """The sections, to be scored with torch."""
        import torch

        from prvr.scoring import Gallery

        projection = None if self.query_projection is None else torch.from_numpy(self.query_projection)
        tensors = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        return Gallery.of_arrays(self.about, tensors, query_projection=projection)

    @cached_property
    def spans(self) -> NDArray[np.float32]:
        """(tokens, 2): start and end of every token in seconds, page after page."""
        return self.arrays["spans"].reshape(-1, 2)

    def spans_of(self, row: int, tokens: int) -> NDArray[np.float32]:
        """(tokens, 2): start and end of each token of a row."""
        start = int(self.numpy_gallery.first_page[row]) * self.numpy_gallery.page
        return self.spans[start : start + tokens]

    def tokens_of(self, row: int, tokens: int) -> NDArray[np.float32]:
        """(tokens, D): the local tokens of a row."""
        return self.numpy_gallery.tokens(row)[:tokens]

    def witness_of(self, row: int) -> KeptFrames | None:
        """What a witness reads of a row; None without one, and in a block that was read without its frames."""
        if WITNESS_FRAMES not in self.arrays:
            return None
        frames, first = self.arrays[WITNESS_FRAMES], self.numpy_gallery.first_page
        return KeptFrames.of(frames[first[row] : first[row + 1]], self.arrays[WITNESS_FACTS][row])

    def section(self, row: int, tokens: int, background: NDArray[np.float32]) -> Section:
        """One row as a section again; ``background``: (B, 2), its scores of the background sentences."""
        return Section(self.about, {**self.arrays_of(row), "background": background[None]}, tokens)

    def arrays_of(self, row: int) -> dict[str, NDArray[Any]]:
        """The arrays of one row."""
        first, last = self.numpy_gallery.first_page[row : row + 2].tolist()
        return {
            name: array[first:last] if name in PAGED_ARRAYS else array[row : row + 1]
            for name, array in self.arrays.items()
        }

    def checksum(self, row: int, apart: Mapping[str, memoryview] | None = None) -> int:
        """The checksum of the arrays of one row; ``apart``: the bytes of those that the block was read without."""
        first, last = self._first_page[row], self._first_page[row + 1]
        stretches = dict(apart or {})
        for name, (data, item) in self._bytes.items():
            begin, end = (first, last) if name in PAGED_ARRAYS else (row, row + 1)
            stretches[name] = data[begin * item : end * item]
        return bytes_checksum(stretches)

    @cached_property
    def checksums(self) -> Ids:
        """(R,): the checksum of every row, computed once."""
        return np.array([self.checksum(row) for row in range(len(self))], np.int64)

    @cached_property
    def _first_page(self) -> list[int]:
        return self.numpy_gallery.first_page.tolist()

    @cached_property
    def _bytes(self) -> dict[str, tuple[memoryview, int]]:
        """The bytes of each array, and how many a row or page has."""
        return {name: (array_bytes(array), array[:1].nbytes) for name, array in self.arrays.items()}


class KeptFrames(NamedTuple):
    """What a library keeps of a section for a witness."""

    frames: NDArray[np.float16]  # (m, D)
    hub: float  # how well the section fits everybody's queries

    @staticmethod
    def of(pages: NDArray[np.float16], facts: NDArray[np.float32]) -> KeptFrames:
        """From pages of frames (p, n, D), the last of which may be longer than needed, and the facts (2,)."""
        hub, count = facts.tolist()
        return KeptFrames(pages.reshape(-1, pages.shape[-1])[: int(count)], hub)


class BlockRows(NamedTuple):
    """Some of the sections that were asked for, and where they are."""

    places: Ids  # (n,) their places among the sections that were asked for
    block: SectionBlock
    rows: Ids  # (n,) their rows in the block
