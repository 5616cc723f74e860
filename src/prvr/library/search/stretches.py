"""Stretches and the Lance index over them, which a folder and a lake share.

A stretch is one unit vector for up to four neighbouring tokens that are nearly alike. All stretches of a section are
one value, a *multivector*, in the column ``stretches`` of a Lance table. The index names the sections with the stretch
that is nearest to a query.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.library.store.blocks import Ids
from prvr.media import MissingExtra, unit_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

STRETCHES = "stretches"  # the column
STRETCH_TOKENS = 4  # neighbouring tokens in a stretch, at most
_ALIKE = 0.9  # least cosine of neighbours in a stretch
_MOST_ROWS = 10  # to ask an index for, for each video that is wanted


def require_lance(extra: str) -> Any:
    """Import Lance, or raise an error that says with which extra to install it."""
    for name in ("LANCE_LOG", "RUST_LOG"):
        os.environ.setdefault(name, "error")  # otherwise Lance prints notes about every search
    try:
        import lance
    except ImportError as problem:
        raise MissingExtra("Lance", extra, problem) from None
    return lance


def is_lance_error(problem: BaseException) -> bool:
    """Whether Lance raises this over files that it cannot read or write."""
    panicked = type(problem).__name__ == "PanicException"  # of Rust code, over some damaged files; no ``Exception``
    return panicked or isinstance(problem, OSError | ValueError | RuntimeError)


def merge_tokens(tokens: NDArray[np.float32], counts: Ids) -> tuple[NDArray[np.float32], Ids]:
    """Merge neighbouring tokens of each section that are nearly alike into their mean direction.

    Args:
        tokens: (n, D), section after section.
        counts: (S,) how many of them each section has.

    Returns:
        Unit vectors (m, D), and where each section begins among them, then the end of the last (S + 1,).

    >>> right, up = [1.0, 0.0], [0.0, 1.0]
    >>> vectors, begins = merge_tokens(np.array([right, right, up, up], np.float32), np.array([3, 1]))
    >>> vectors.tolist(), begins.tolist()
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [0, 2, 3])
    """
    unit, ends = unit_rows(tokens), np.cumsum(counts)
    changes = np.append(True, (unit[1:] * unit[:-1]).sum(1) < _ALIKE)
    changes[ends[:-1]] = True
    place = np.arange(len(unit))
    since = place - np.maximum.accumulate(np.where(changes, place, 0))  # tokens since the last change
    first = np.flatnonzero(since % STRETCH_TOKENS == 0)
    return unit_rows(np.add.reduceat(unit, first)), np.searchsorted(first, np.append(0, ends))


def stretch_type(width: int) -> pa.DataType:
    """The type of the column for tokens of this width. Lance takes several times as long to index half floats."""
    import pyarrow as pa

    return pa.list_(pa.list_(pa.float32(), width))


def stretch_column(tokens: NDArray[np.float32], counts: Ids) -> pa.ListArray:
    """The values of the column for sections with these tokens, as in ``merge_tokens``."""
    import pyarrow as pa

    vectors, begins = merge_tokens(tokens, counts)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return pa.ListArray.from_arrays(begins.astype(np.int32), lists)


def build_stretch_index(table: LanceDataset, lists: int) -> None:
    """Index the column of a table: each stretch in one of so many lists, a byte for each number."""
    table.create_index(STRETCHES, "IVF_SQ", metric="cosine", num_partitions=lists, replace=True)


def nearest_rows(
    table: LanceDataset, query: NDArray[np.float32], count: int, probes: int, number: str = "_rowid"
) -> Ids:
    """The rows with the stretches nearest to a query (D,), best first.

    Args:
        table: a table with an index.
        query: (D,).
        count: how many rows to find.
        probes: how many lists of the index to look at.
        number: the column with the numbers of rows; by default Lance's own.
    """
    nearest = {"column": STRETCHES, "q": query, "k": count, "nprobes": probes, "metric": "cosine"}
    found = table.scanner([number, "_distance"], nearest=nearest).to_table()
    return found[number].to_numpy().astype(np.int64)


def rows_to_ask(wanted: int, rows: int, videos: int) -> int:
    """How many rows to ask an index for, to find so many videos.

    Several rows may be of one video, and some of videos that were removed: an index has ``rows`` for ``videos``.

    >>> rows_to_ask(200, 1000, 1000), rows_to_ask(200, 1500, 1000), rows_to_ask(200, 1000, 0)
    (200, 300, 2000)
    """
    return math.ceil(wanted * min(_MOST_ROWS, rows / max(1, videos)))


def first_videos(owners: Ids, count: int) -> Ids:
    """So many different videos from the front of a list.

    >>> first_videos(np.array([7, 3, 7, 5, 1]), 3).tolist()
    [7, 3, 5]
    """
    videos, places = np.unique(owners, return_index=True)
    first: Ids = videos[np.argsort(places)][:count]
    return first
