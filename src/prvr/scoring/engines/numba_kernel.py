"""The kernel of ``best_routes.py``. It imports Numba, which may not be installed.

Every loop runs along queries, reads and writes different arrays, and holds one expression, so that LLVM makes vector
instructions of it. (A loop that updates an array by a condition becomes masked stores, which are slow: the running
maximum therefore goes back and forth between two arrays.) Numba widens sums of 32-bit integers; the casts undo that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
_Function = TypeVar("_Function", bound=Callable[..., None])

_LOWEST = np.float32(np.finfo(np.float32).min)
_LN2 = np.float32(np.log(2))
_TWO_THIRDS = np.int32(np.float32(2 / 3).view(np.int32))  # mantissas are taken from [2/3, 4/3)
_BITS = np.int32(23)  # of a float's mantissa
_ONE = np.float32(1)
# log(1 + m) = m − m²/2 + m³·(c₀ + c₁m + …) for m in [−1/3, 1/3), to 1e-7
_C0, _C1, _C2, _C3, _C4, _C5 = (
    np.float32(c) for c in (0.33333534, -0.2500086, 0.19948363, -0.1659010, 0.14483282, -0.13229197)
)


def _compiled(function: _Function) -> _Function:
    options = {"nogil": True, "fastmath": True, "error_model": "numpy"}
    try:
        return njit(**options, cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(**options)(function)


@_compiled
def best_routes_of_pages(direct: Floats, grounding: Floats, reach: Floats, strength: np.float32, best: Floats) -> None:
    """``best = max_i d_i + strength·log Σ_k B_ki A_k``: (P, M, Q), (P, R, M), (P, R, Q) → (P, Q)."""
    pages, slots, queries = direct.shape
    paths, mantissas = np.empty(queries, np.float32), np.empty(queries, np.float32)
    exponents, other = np.empty(queries, np.float32), np.empty(queries, np.float32)
    for p in range(pages):
        best[p] = _LOWEST
        for i in range(slots):
            _weigh(reach[p, 0], grounding[p, 0, i], paths)
            for k in range(1, grounding.shape[1]):
                _add(reach[p, k], grounding[p, k, i], paths)
            _take_apart(paths.view(np.int32), exponents, mantissas.view(np.int32))
            if i % 2 == 0:
                _keep_larger(direct[p, i], mantissas, exponents, strength, best[p], other)
            else:
                _keep_larger(direct[p, i], mantissas, exponents, strength, other, best[p])
        if slots % 2:
            best[p] = other


@_compiled
def _weigh(values: Floats, weight: np.float32, total: Floats) -> None:
    for q in range(total.size):
        total[q] = values[q] * weight


@_compiled
def _add(values: Floats, weight: np.float32, total: Floats) -> None:
    for q in range(total.size):
        total[q] += values[q] * weight


@_compiled
def _take_apart(bits: Integers, exponents: Floats, mantissas: Integers) -> None:
    """x = mantissa · 2^exponent, from the bits of positive floats."""
    for q in range(bits.size):
        exponent = np.int32(np.int32(bits[q] - _TWO_THIRDS) >> _BITS)
        exponents[q] = np.float32(exponent)
        mantissas[q] = np.int32(bits[q] - np.int32(exponent << _BITS))


@_compiled
def _keep_larger(
    direct: Floats, mantissas: Floats, exponents: Floats, strength: np.float32, before: Floats, after: Floats
) -> None:
    for q in range(after.size):
        m = mantissas[q] - _ONE
        series = ((((_C5 * m + _C4) * m + _C3) * m + _C2) * m + _C1) * m + _C0
        log = (series * m - np.float32(0.5)) * m * m + m + exponents[q] * _LN2
        route = direct[q] + strength * log
        known = before[q]
        after[q] = route if route > known else known
