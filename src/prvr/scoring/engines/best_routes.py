"""``max_i d_i + γτ·log(A·B)_i`` in one pass over the frames, compiled by Numba where that is installed.

The torch engine passes over all frames four times after its products; a logarithm takes most of that. Numba brings its
compiler along, and fuses the passes: ``pip install "prvr[numba]"``. It takes a second to start, so small work
goes without it.
"""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from torch import Tensor

from prvr.scoring.engines.common import slices
from prvr.scoring.gallery import Gallery

WORTH = 1 << 29  # queries × slots, from which the pass saves more time than Numba takes to start


@cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def one_pass_pays(queries: int, gallery: Gallery) -> bool:
    """Whether there is enough to do, and Numba does it: float32 on a CPU."""
    routes = gallery.routes
    if routes is None or gallery.device.type != "cpu" or routes.grounding.dtype != torch.float32:
        return False
    pages, _, page = routes.grounding.shape
    return queries * pages * page >= WORTH and gallery.storage != "fp64" and _has_numba()


def best_routes(direct: Tensor, grounding: Tensor, reach: Tensor, strength: float) -> Tensor:
    """The best route of each page: (P, page, Q), (P, R, page), (P, R, Q) → (P, Q)."""
    from prvr.scoring.engines.numba_kernel import best_routes_of_pages

    pages, _, queries = direct.shape
    found, threads = direct.new_empty(pages, queries), torch.get_num_threads()
    d, b, a = (tensor.contiguous().numpy() for tensor in (direct, grounding, reach))
    best = found.numpy()

    def work(part: slice) -> None:
        best_routes_of_pages(d[part], b[part], a[part], np.float32(strength), best[part])

    parts = list(slices(pages, -(-pages // threads)))
    if len(parts) == 1:
        work(parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))
    # The kernel takes its numbers for real ones. One that is not shows for every query, or on every slot.
    found[direct[:, 0].isnan()] = torch.nan
    found[(direct[:, :, 0].sum(1) + grounding.sum((1, 2)) + reach[:, :, 0].sum(1)).isnan()] = torch.nan
    return found
