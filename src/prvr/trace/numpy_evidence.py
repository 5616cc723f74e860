"""TRACE in NumPy, for a search that does without torch. ``operator.py`` explains the equations; these are the same.

Videos come on pages of frames, as a gallery stores them. Whatever has no frame in it is computed once for each video.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.trace.config import TraceConfig

Floats = NDArray[np.floating]


class PagedProducts(NamedTuple):
    """What TRACE needs of Q queries and V videos on P pages: their products, and the videos' routes."""

    direct: Floats  # (Q, P, page) d
    affinity: Floats  # (Q, V, R) a
    responses: Floats  # (Q, V, R) q·w_k
    grounded: Floats  # (P, R, page) B = exp((b − b_max)/τ)
    ceiling: Floats  # (V,) b_max
    gram: Floats  # (V, R, R)
    owner: NDArray[np.int64]  # (P,) the video of each page


class PagedEvidence(NamedTuple):
    """TRACE's curves over pages, and what is the same for all frames of a video."""

    routed: Floats  # (Q, P, page) d + γρ
    activation: Floats  # (Q, V, R) π
    soft: Floats  # (Q, V) S_soft
    certainty: Floats | float  # (Q, V) with the gate, otherwise 1
    soft_weight: float  # η

    def score(self, route: Floats) -> Floats:
        """``S_trace`` of a routed maximum (Q, V)."""
        return (route + self.soft_weight * self.soft) * self.certainty


def paged_evidence(found: PagedProducts, config: TraceConfig) -> PagedEvidence:
    """The evidence of all pairs.

    >>> one = np.ones((1, 1, 1), np.float32)
    >>> found = PagedProducts(0.8 * one, one, one, one, one[0, 0], one, np.zeros(1, np.int64))
    >>> f"{paged_evidence(found, TraceConfig()).routed.item():.4f}"  # 0.8 + 0.3 · (1 + 1)
    '1.4000'
    """
    tau, owner = config.temperature, found.owner
    strongest = found.affinity.max(-1, keepdims=True)
    # In the precision of the routes: at low temperatures A leaves float32 just as B does.
    reach = np.exp((found.affinity - strongest).astype(found.grounded.dtype) / tau)  # A (Q, V, R)
    activation = (reach / reach.sum(-1, keepdims=True)).astype(found.affinity.dtype)
    paths = _over_registers(reach[:, owner], found.grounded)
    support = (strongest[..., 0] + found.ceiling)[:, owner, None] + (tau * np.log(paths)).astype(found.direct.dtype)
    routed = found.direct + config.routing_strength * support
    squared = np.einsum("qvr,vrs,qvs->qv", activation, found.gram, activation)
    floor = 1e-5 * np.finfo(squared.dtype).eps
    along = (activation * found.responses).sum(-1)
    soft = (along / np.sqrt(np.maximum(squared, floor))).clip(-1, 1)
    certain = _certainty(activation) if config.gate else 1.0
    return PagedEvidence(routed, activation, soft, certain, config.soft_weight)


def expected_paged_support(found: PagedProducts, activation: Floats, config: TraceConfig) -> Floats:
    """``ḡ_i = Σ_k π_k b_ki``, support on the cosine scale: (Q, P, page)."""
    logs = _over_registers(activation[:, found.owner], np.log(found.grounded))
    return found.ceiling[found.owner, None] + (config.temperature * logs).astype(found.ceiling.dtype)


def _over_registers(weights: Floats, paths: Floats) -> Floats:
    """(Q, P, R), (P, R, page) → (Q, P, page). A few long sums are faster than thousands of tiny products."""
    total = weights[..., 0, None] * paths[:, 0]
    for k in range(1, paths.shape[1]):
        total += weights[..., k, None] * paths[:, k]
    return total


def _certainty(activation: Floats) -> Floats | float:
    """``1 − H(π)/log R``; 1 with a single register."""
    count = activation.shape[-1]
    if count == 1:
        return 1.0
    share = np.maximum(activation, np.finfo(activation.dtype).tiny)
    return (1 + (share * np.log(share)).sum(-1) / math.log(count)).clip(0, 1)
