"""Whether the rest of a video supports the moment that was found: measured first, and said only if it means something.

The measure is the *lift*: the support that the registers lend to the strongest moment, above what they lend to the
video on average. First answers of searches whose truth is known are divided into thirds by it. A verdict is given only
if answers in the upper third are surely right more often than those in the lower third.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prvr.trace.curves import Peaked

Verdict = Literal["supported", "weakly supported", "unsupported"]
_Z = 1.96  # 95 %
_FEWEST = 30  # first answers; with fewer there are no thirds to speak of


@dataclass(frozen=True)
class Share:
    """How many of some answers were right."""

    right: int
    of: int

    @property
    def value(self) -> float:
        return self.right / max(1, self.of)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval.

        >>> [round(bound, 2) for bound in Share(8, 10).interval]
        [0.49, 0.94]
        """
        n, p = max(1, self.of), self.value
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return middle - half, middle + half

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.right} of {self.of} right ({self.value:.0%}, {max(0.0, low):.0%} to {high:.0%})"


@dataclass(frozen=True)
class VerdictScale:
    """Where the thirds of lifts begin, and how often first answers in the outer two were right."""

    low: float
    high: float
    supported: Share
    unsupported: Share

    @staticmethod
    def fit(lifts: NDArray[np.float64], right: NDArray[np.bool_]) -> VerdictScale | None:
        """Of first answers whose truth is known; None if there are too few."""
        if len(lifts) < _FEWEST:
            return None
        low, high = (float(edge) for edge in np.quantile(lifts, (1 / 3, 2 / 3)))
        return VerdictScale(low, high, *shares_by_verdict(lifts, right, low, high))

    def on(self, lifts: NDArray[np.float64], right: NDArray[np.bool_]) -> VerdictScale:
        """The same scale, with how often other answers were right."""
        return VerdictScale(self.low, self.high, *shares_by_verdict(lifts, right, self.low, self.high))

    @property
    def sure(self) -> bool:
        """Whether supported answers are surely right more often (Newcombe's 95 % interval of the difference)."""
        return self.difference[0] > 0

    @property
    def difference(self) -> tuple[float, float]:
        """The 95 % interval of the share right among supported answers, less that among unsupported ones."""
        p, q = self.supported.value, self.unsupported.value
        (p_low, p_high), (q_low, q_high) = self.supported.interval, self.unsupported.interval
        return p - q - sqrt((p - p_low) ** 2 + (q_high - q) ** 2), p - q + sqrt((p_high - p) ** 2 + (q - q_low) ** 2)

    def verdict(self, lift: float) -> Verdict | None:
        """The word for an answer; None if the measure means nothing here."""
        if not self.sure:
            return None
        return "supported" if lift >= self.high else "weakly supported" if lift >= self.low else "unsupported"

    def __str__(self) -> str:
        low, high = self.difference
        return f"supported: {self.supported}; unsupported: {self.unsupported}; difference {low:+.0%} to {high:+.0%}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> VerdictScale:
        shares = {name: Share(**fields[name]) for name in ("supported", "unsupported")}
        return VerdictScale(float(fields["low"]), float(fields["high"]), **shares)


_SUPPORT = {
    "supported": "The rest of the video supports it.",
    "weakly supported": "The rest of the video supports it a little.",
    "unsupported": "The rest of the video does not support it.",
}


def why_this_one(
    found: Peaked,
    spans: NDArray[np.float32],
    verdict: Verdict | None,
    asked: str = "What you describe",
    *,
    traced: bool = True,
) -> str:
    """Why a moment was found, in words, for page, picture and terminal.

    Args:
        found: the evidence.
        spans: (m, 2) seconds.
        verdict: what the rest of the video says to it.
        asked: the query, as a sentence about it begins.
        traced: whether TRACE took part; without it, the closest moment is taken.
    """
    direct, routed = spans[found.direct_peak], spans[found.routed_peak]
    elsewhere = bool(direct[1] <= routed[0] or routed[1] <= direct[0])
    words = [f"{asked} is closest to {_times(direct)}."]
    if verdict is not None:
        words.append(_SUPPORT[verdict])
    if elsewhere and traced:
        words.append(f"Weighed with the rest of the video, {_times(routed)} is stronger, so that was taken.")
    return " ".join(words)


def _times(span: NDArray[np.float32]) -> str:
    """Start and end of a stretch, to the tenth of a second."""
    tenths = [round(10 * float(edge)) for edge in span]
    return "–".join(f"{each // 600}:{each % 600 / 10:04.1f}" for each in tenths)


def shares_by_verdict(
    lifts: NDArray[np.float64], right: Sequence[bool] | NDArray[np.bool_], low: float, high: float
) -> tuple[Share, Share]:
    """How often answers with a lift of at least ``high``, and below ``low``, are right."""
    truth = np.asarray(right, bool)
    upper, lower = lifts >= high, lifts < low
    return Share(int(truth[upper].sum()), int(upper.sum())), Share(int(truth[lower].sum()), int(lower.sum()))
