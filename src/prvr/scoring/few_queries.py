"""Products for one or two queries on a CPU, with SimSIMD.

Matrix libraries are made for many queries. For one query they reach a third of the memory's speed, and they are slow on
half floats and eight-bit integers. SimSIMD makes one pass over the stored bytes, with this processor's instructions.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_QUERIES = 2  # from here on a matrix product is faster
_PROCESS: Any = ctypes.CDLL(None) if sys.platform != "win32" else object()  # functions of all libraries that it shares
_FEW_NUMBERS = 1 << 18  # are multiplied before other threads have started


def has_simsimd() -> bool:
    return importlib.util.find_spec("simsimd") is not None


def few_query_dots(stored: NDArray[Any], queries: NDArray[Any], kind: str, threads: int) -> NDArray[np.float32]:
    """Rows (N, D) and queries (Q, D) of one kind of numbers → (Q, N).

    Args:
        stored: the rows; brain floats as 16-bit integers.
        queries: the same.
        kind: "f32", "f16", "bf16" or "int8".
        threads: to use, at most one for each core; few numbers take one.
    """
    import simsimd

    name: Any = kind
    threads = min(threads, os.cpu_count() or 1) if stored.size > _FEW_NUMBERS else 1
    # SimSIMD sets this thread's number of OpenMP threads. Where torch was imported first, both use one OpenMP, and
    # torch would go on with that number. (``torch.set_num_threads`` would also change it for threads that start later.)
    before = 0
    with suppress(AttributeError):  # SimSIMD has an OpenMP of its own
        before = _PROCESS.omp_get_max_threads()
    found: Any = simsimd.cdist(queries, stored, metric="dot", dtype=name, threads=threads)
    if before:
        _PROCESS.omp_set_num_threads(before)
    return np.frombuffer(found, np.float64).reshape(len(queries), len(stored)).astype(np.float32)
