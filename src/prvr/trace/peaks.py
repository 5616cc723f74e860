"""Reading peaks off evidence curves: which place each selector picks, and whether the registers support it."""

from __future__ import annotations

from typing import Any


class Peaked:
    """For a record of one query and one video whose curves are arrays over the same places of it."""

    direct: Any  # (M,) what the query saw
    support: Any  # (M,) what the registers lend, on the cosine scale
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
        """Direct evidence minus support at the direct peak: large where a peak stands alone."""
        return float(self.direct[self.direct_peak] - self.support[self.direct_peak])
