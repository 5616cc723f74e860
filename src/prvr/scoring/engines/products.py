"""Products of queries with stored vectors, on any device and for any storage type.

On a processor, many queries are multiplied by oneDNN, which torch carries. ``torch.mm`` uses MKL, which leaves AMD's
AVX-512 unused and so reaches half of that rate there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.scoring.engines import simd
from prvr.scoring.engines.common import slices
from prvr.scoring.storage import Vectors
from prvr.scoring.workspace import Workspace

BLOCK_ELEMENTS = 1 << 20  # numbers turned into floats or multiplied at a time, so that a CPU's cache still holds them
FEWEST_COLUMNS = 16  # padding to this many columns is faster on a CPU
FEWEST_FOR_ONEDNN = 64  # columns from which oneDNN is faster than MKL, with AVX2 and with AVX-512


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
    onednn = onednn_product(columns)
    out = workspace.empty(name, (len(rows.values), queries), columns)
    widest = shape[-1] if onednn is None else max(shape[-1], queries)
    step = len(rows.values) if columns.device.type != "cpu" else max(1, BLOCK_ELEMENTS // widest)
    for part in slices(len(rows.values), step):
        floats = _floats(rows[part], columns, workspace)
        if onednn is None:
            torch.mm(floats, columns, out=out[part])
        else:
            out[part] = onednn(floats)
    return out.view(*shape[:-1], queries)


def onednn_product(columns: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Multiplies (N, D) by these columns (D, Q), which are packed once; None where ``torch.mm`` is better."""
    many = columns.device.type == "cpu" and columns.dtype == torch.float32 and columns.shape[1] >= FEWEST_FOR_ONEDNN
    if not many or not _has_onednn():
        return None
    packed = torch.ops.mkldnn._reorder_linear_weight(columns.T.contiguous())
    return lambda rows: torch.ops.mkldnn._linear_pointwise(rows.contiguous(), packed, None, "none", [], "")


@cache
def _has_onednn() -> bool:
    """Whether torch has oneDNN's products for an Intel or AMD processor. They are not part of torch's public API."""
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
        and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )


def _floats(rows: Vectors, like: Tensor, workspace: Workspace) -> Tensor:
    """Stored vectors (N, D) in the precision they are multiplied in."""
    if like.device.type != "cpu" or (rows.scale is None and rows.values.dtype == like.dtype):
        return rows.restore(like.dtype)
    floats = workspace.empty("floats", tuple(rows.shape), like).copy_(rows.values)
    return floats if rows.scale is None else floats.mul_(rows.scale[:, None].to(like.dtype))
