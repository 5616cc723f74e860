"""Products for one or two queries on a CPU: ``few_queries.py`` for tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from prvr.scoring.few_queries import MOST_QUERIES, few_query_dots, has_simsimd
from prvr.scoring.gallery import Gallery
from prvr.scoring.storage import Vectors

__all__ = ["MOST_QUERIES", "few_query_products", "fits", "takes"]

_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "int8"}


def fits(queries: int, gallery: Gallery) -> bool:
    return queries <= MOST_QUERIES and gallery.device.type == "cpu" and gallery.storage != "fp64" and has_simsimd()


def takes(vectors: Vectors, queries: int) -> bool:
    known = vectors.values.dtype in _NAMES and vectors.values.device.type == "cpu"
    return queries <= MOST_QUERIES and known and has_simsimd()


def few_query_products(vectors: Vectors, queries: Tensor) -> Tensor:
    """(…, N, D) with (Q, D) → (…, N, Q) float32."""
    shape, dtype = vectors.shape, vectors.values.dtype
    stored = Vectors.store(queries, "int8") if dtype == torch.int8 else Vectors(queries.to(dtype))
    rows, columns = _plain(vectors.values.reshape(-1, shape[-1])), _plain(stored.values)
    found = torch.from_numpy(few_query_dots(rows, columns, _NAMES[dtype], torch.get_num_threads()))
    result = found.view(len(queries), *shape[:-1]).movedim(0, -1)
    if vectors.scale is not None and stored.scale is not None:
        result = result * vectors.scale[..., None] * stored.scale
    return result


def _plain(tensor: Tensor) -> Any:
    """As a NumPy array; brain floats, which NumPy lacks, as the 16-bit numbers they are."""
    tensor = tensor.contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
