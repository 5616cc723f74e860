"""Why a video was found: curves over time, in numbers a person or a page can draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.search.moments import Curve
from prvr.trace import Peaked


@dataclass(frozen=True)
class MomentEvidence(Peaked):
    """One query and one video. Curves have a value for each stretch of the video; ``spans`` are their seconds."""

    spans: NDArray[np.float32]  # (m, 2)
    direct: Curve  # (m,) what the query saw
    support: Curve  # (m,) what the anchors lend, on the cosine scale
    routed: Curve  # (m,) direct evidence with the support that was routed to it
    value: Curve  # (m,) each stretch's share in the score: what moments are ranked by
    activation: Curve  # (R,) how much each anchor of the best section was activated

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        curves = {name: getattr(self, name).round(4).tolist() for name in ("direct", "support", "routed", "activation")}
        peaks = {"direct_peak": self.direct_peak, "routed_peak": self.routed_peak}
        return {
            "spans": [[round(float(a), 3), round(float(b), 3)] for a, b in self.spans],
            **curves,
            **peaks,
            "unsupported_gap": round(self.unsupported_gap, 4),
        }


@dataclass(frozen=True)
class Asked:
    """A query (D,) and the sections of a video to look at; ``weight``: TRACE's share λ."""

    query: Tensor
    sections: tuple[int, ...]
    weight: float
