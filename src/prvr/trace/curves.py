"""Reading evidence curves: which place each selector picks, whether registers support it, how moments overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Peaked:
    """Mixin: the peaks of the evidence curves of one query and one video."""

    direct: Any  # (M,) what the query saw
    expected_support: Any  # (M,) ḡ: support by the registers, on the cosine scale
    routed: Any  # (M,) direct evidence with the support that was routed to it

    @property
    def direct_peak(self) -> int:
        """The place that plain max pooling picks."""
        return int(self.direct.argmax())

    @property
    def routed_peak(self) -> int:
        """The place that TRACE picks."""
        return int(self.routed.argmax())

    @property
    def unsupported_gap(self) -> float:
        """Direct evidence minus support at the direct peak: large where a peak has no support."""
        return float(self.direct[self.direct_peak] - self.expected_support[self.direct_peak])

    @property
    def support_lift(self) -> float:
        """Support at the direct peak, above the mean support of the video."""
        return float(self.expected_support[self.direct_peak] - self.expected_support.mean())


def temporal_iou(start: ArrayLike, end: ArrayLike, other_start: ArrayLike, other_end: ArrayLike) -> NDArray[np.float64]:
    """Intersection over union of stretches of time, in any unit; 0 where both are empty.

    >>> temporal_iou(np.array([0.0, 5.0]), np.array([4.0, 9.0]), 2.0, 4.0)
    array([0.5, 0. ])
    """
    start, end, other_start, other_end = (np.asarray(edge, np.float64) for edge in (start, end, other_start, other_end))
    shared = np.maximum(np.minimum(end, other_end) - np.maximum(start, other_start), 0)
    union = (end - start) + (other_end - other_start) - shared
    return np.divide(shared, union, out=np.zeros(np.shape(shared)), where=union > 0)
