"""Products for one or two queries on a CPU, with SimSIMD.

Matrix libraries are made for many queries. For one query they reach a third of the memory's speed, and they are slow on
half floats and eight-bit integers. SimSIMD makes one pass over the stored bytes, with this processor's instructions.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from prvr.scoring.gallery import Gallery
from prvr.scoring.storage import Vectors

MOST_QUERIES = 2  # from here on a matrix product is faster
_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "int8"}


def has_simsimd() -> bool:
    return importlib.util.find_spec("simsimd") is not None


def fits(queries: int, gallery: Gallery) -> bool:
    return queries <= MOST_QUERIES and gallery.device.type == "cpu" and gallery.storage != "fp64" and has_simsimd()


def takes(vectors: Vectors, queries: int) -> bool:
    known = vectors.values.dtype in _NAMES and vectors.values.device.type == "cpu"
    return queries <= MOST_QUERIES and known and has_simsimd()


def few_query_products(vectors: Vectors, queries: Tensor) -> Tensor:
    """(…, N, D) with (Q, D) → (…, N, Q) float32."""
    import simsimd

    shape, dtype = vectors.shape, vectors.values.dtype
    stored = Vectors.store(queries, "int8") if dtype == torch.int8 else Vectors(queries.to(dtype))
    rows, columns = _plain(vectors.values.reshape(-1, shape[-1])), _plain(stored.values)
    threads = torch.get_num_threads()
    kind: Any = _NAMES[dtype]
    found: Any = simsimd.cdist(columns, rows, metric="dot", dtype=kind, threads=min(threads, _cores()))
    result = torch.frombuffer(found, dtype=torch.float64).view(len(queries), *shape[:-1]).movedim(0, -1).float()
    if vectors.scale is not None and stored.scale is not None:
        result = result * vectors.scale[..., None] * stored.scale
    return result


def _cores() -> int:
    return os.cpu_count() or 1


def _plain(tensor: Tensor) -> Any:
    """As a NumPy array; brain floats, which NumPy lacks, as the 16-bit numbers they are."""
    tensor = tensor.contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
