"""Products of queries with stored vectors, on any device and for any storage type."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.scoring.engines import simd
from prvr.scoring.engines.common import slices
from prvr.scoring.storage import Vectors
from prvr.scoring.workspace import Workspace

BLOCK_ELEMENTS = 1 << 20  # stored numbers turned into floats at a time, so that a CPU's cache still holds them
FEWEST_COLUMNS = 16  # padding to this many columns is faster on a CPU


def enough_columns(columns: Tensor) -> Tensor:
    """Pad a few queries (D, Q) with zero columns if that is faster."""
    count = columns.shape[1]
    if count <= simd.MOST_QUERIES or count >= FEWEST_COLUMNS or columns.device.type != "cpu":
        return columns
    return F.pad(columns, (0, FEWEST_COLUMNS - count))


def stored_products(vectors: Vectors, columns: Tensor, workspace: Workspace, name: str) -> Tensor:
    """(…, N, D) with (D, Q) → (…, N, Q), in the named buffer: use the result before the next call with that name."""
    if simd.takes(vectors, columns.shape[1]):
        return simd.few_query_products(vectors, columns.T)
    shape, queries = vectors.shape, columns.shape[1]
    rows = vectors.flat()
    out = workspace.empty(name, (len(rows.values), queries), columns)
    step = len(rows.values) if columns.device.type != "cpu" else max(1, BLOCK_ELEMENTS // shape[-1])
    for part in slices(len(rows.values), step):
        torch.mm(_floats(rows[part], columns, workspace), columns, out=out[part])
    return out.view(*shape[:-1], queries)


def _floats(rows: Vectors, like: Tensor, workspace: Workspace) -> Tensor:
    """Stored vectors (N, D) in the precision they are multiplied in."""
    if like.device.type != "cpu" or (rows.scale is None and rows.values.dtype == like.dtype):
        return rows.restore(like.dtype)
    floats = workspace.empty("floats", tuple(rows.shape), like).copy_(rows.values)
    return floats if rows.scale is None else floats.mul_(rows.scale[:, None].to(like.dtype))
