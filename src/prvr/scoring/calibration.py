"""Scores to probabilities: is it there at all, and is this video the one?

A score first becomes a likelihood ratio: how much more often pairs that match score like this than pairs that do not.
Its logarithm is a straight line over the score (``match``). Bayes' rule then weighs all V videos of a library against
each other and against the chance that none of them matches, which before looking is one half:

    odds that the library holds it        mean over videos of exp(match(score))
    odds that video i is right            exp(match(i)) / (V + sum over the other videos)

Videos of one library are not independent, so both are straightened once more by a line in log odds (``presence``,
``right``). All lines are fitted on searches whose truth is known: each query once with its videos in the library, and
once with them left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_NEGATIVES = 256  # pairs of each query that do not match, at most, for the likelihood ratio
_FEWEST_QUERIES = 20  # with fewer, nothing is fitted
_BINS = 10
_RIDGE = 1e-3


@dataclass(frozen=True)
class Line:
    """A straight line."""

    slope: float
    intercept: float

    def __call__(self, x: Values | float) -> Values:
        return np.asarray(self.slope * np.asarray(x, np.float64) + self.intercept)


@dataclass(frozen=True)
class Calibration:
    """Turns what one query scores on the videos of a library into probabilities."""

    match: Line  # score → log likelihood ratio
    presence: Line  # log odds → log odds
    right: Line
    queries: int  # that it was fitted on
    videos: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> Calibration:
        lines = {name: Line(**fields[name]) for name in ("match", "presence", "right")}
        return Calibration(**lines, queries=int(fields["queries"]), videos=int(fields["videos"]))


class LibraryOdds:
    """One query's scores on all videos of a library, seen through a calibration."""

    def __init__(self, calibration: Calibration, scores: NDArray[np.float32], weights: Values | None = None):
        """``scores`` (n,): of all videos, or of some, each of which stands for as many as its weight says."""
        self.calibration = calibration
        logs = calibration.match(scores.astype(np.float64))
        self.log_total = _log_sum(logs, weights)  # log of the sum of likelihood ratios
        self.videos = float(len(scores) if weights is None else weights.sum())

    @property
    def presence(self) -> float:
        """The probability that some video matches."""
        return float(_sigmoid(self.calibration.presence(self.log_total - np.log(self.videos))))

    def right(self, score: float) -> float:
        """The probability that a video with this score, which is one of the library's, matches."""
        return float(_sigmoid(self.calibration.right(self.log_odds(score))))

    def log_odds(self, score: float) -> float:
        """Log odds that a video with this score is right, before they are straightened."""
        own = float(self.calibration.match(score))
        others = np.exp(self.log_total) - np.exp(own) if self.log_total < 700 else np.inf
        return own - float(np.log(self.videos + max(others, 0.0)))


def fit_calibration(scores: NDArray[np.float32], positives: Sequence[Sequence[int]]) -> Calibration | None:
    """Fit a calibration on searches whose truth is known; None if there are too few.

    Args:
        scores: (Q, V) of every query on every video.
        positives: for each query the columns of all videos that match.
    """
    usable = [row for row, right in enumerate(positives) if 0 < len(right) < scores.shape[1]]
    if len(usable) < _FEWEST_QUERIES or scores.shape[1] < 3:
        return None
    even = Line(1.0, 0.0)
    unstraightened = Calibration(_fit_match(scores, positives, usable), even, even, len(usable), scores.shape[1])
    known = known_searches(unstraightened, scores, positives)
    presence = _fit_line(known.presence_odds, known.present, slope_at_least=0.05)
    right = _fit_line(known.right_odds, known.right, slope_at_least=0.05)
    return Calibration(unstraightened.match, presence, right, len(usable), scores.shape[1])


def _fit_match(scores: NDArray[np.float32], positives: Sequence[Sequence[int]], rows: Sequence[int]) -> Line:
    """The line of log likelihood ratios: a logistic fit of matching against other pairs, less the log odds of both."""
    rng = np.random.default_rng(0)
    values, labels = [], []
    for row in rows:
        others = np.setdiff1d(np.arange(scores.shape[1]), positives[row])
        others = others if len(others) <= _NEGATIVES else rng.choice(others, _NEGATIVES, replace=False)
        values += [scores[row, list(positives[row])], scores[row, others]]
        labels += [np.ones(len(positives[row]), bool), np.zeros(len(others), bool)]
    label = np.concatenate(labels)
    line = _fit_line(np.concatenate(values).astype(np.float64), label)
    return Line(line.slope, line.intercept - float(np.log(label.mean() / (1 - label.mean()))))


@dataclass(frozen=True)
class KnownSearches:
    """Searches whose truth is known: each query with its videos in the library, then with them left out; (2Q,) each."""

    present: NDArray[np.bool_]  # whether the library held a right video
    right: NDArray[np.bool_]  # whether the first answer was right
    presence_odds: Values  # log odds that it is there, straightened
    right_odds: Values  # log odds that the first answer is right, straightened

    @property
    def quality(self) -> CalibrationQuality:
        """How true the probabilities are."""
        presence, first = _sigmoid(self.presence_odds), _sigmoid(self.right_odds)
        return CalibrationQuality.of(presence, self.present, first, self.right)


def known_searches(
    calibration: Calibration, scores: NDArray[np.float32], positives: Sequence[Sequence[int]]
) -> KnownSearches:
    """What a calibration says of searches whose truth is known."""
    present, right, presence, first = [], [], [], []
    for row, correct in enumerate(positives):
        if not 0 < len(correct) < scores.shape[1]:
            continue
        for videos in (scores[row], np.delete(scores[row], list(correct))):
            whole = len(videos) == scores.shape[1]
            odds, best = LibraryOdds(calibration, videos), int(videos.argmax())
            present.append(whole)
            right.append(whole and best in correct)
            presence.append(float(calibration.presence(odds.log_total - np.log(odds.videos))))
            first.append(float(calibration.right(odds.log_odds(float(videos[best])))))
    return KnownSearches(np.array(present), np.array(right), np.array(presence), np.array(first))


@dataclass(frozen=True)
class CalibrationQuality:
    """How true the probabilities of a calibration are, on searches whose truth is known."""

    searches: int
    presence_error: float  # expected calibration error of "it is there"
    presence_auc: float  # how often a query whose video is there gets more than one whose video is not
    right_error: float  # expected calibration error of "the first is right"
    right_auc: float

    @staticmethod
    def of(presence: Values, present: NDArray[np.bool_], first: Values, right: NDArray[np.bool_]) -> CalibrationQuality:
        """From what was said of each search and what was true, (n,) each."""
        return CalibrationQuality(
            searches=len(present),
            presence_error=calibration_error(presence, present),
            presence_auc=area_under_roc(presence, present),
            right_error=calibration_error(first, right),
            right_auc=area_under_roc(first, right),
        )

    def __str__(self) -> str:
        return (
            f"is it there: calibration error {self.presence_error:.3f}, area under the ROC {self.presence_auc:.3f}; "
            f"is the first one it: {self.right_error:.3f}, {self.right_auc:.3f} ({self.searches} searches, half of "
            "them without their videos)"
        )


def calibration_error(probabilities: Values, truth: NDArray[np.bool_]) -> float:
    """Expected calibration error: in ten equal bins, the mean distance of what was said from what was true.

    >>> round(calibration_error(np.array([0.95, 0.95, 0.25, 0.25]), np.array([True, True, False, True])), 2)
    0.15
    """
    bins = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    gaps = [
        abs(float(probabilities[here].sum() - truth[here].sum())) for here in (bins == each for each in range(_BINS))
    ]
    return sum(gaps) / max(1, len(truth))


def area_under_roc(values: Values, truth: NDArray[np.bool_]) -> float:
    """How often a true case has a larger value than a false one; ties count half. 0.5 if one kind is missing.

    >>> area_under_roc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    positive, negative = values[truth], np.sort(values[~truth])
    if not len(positive) or not len(negative):
        return 0.5
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return float(below.mean() / (2 * len(negative)))


def _fit_line(x: Values, truth: NDArray[np.bool_], slope_at_least: float = 0.0) -> Line:
    """Logistic regression of one number, by Newton's method, with a ridge that keeps separable data finite."""
    middle, spread = float(x.mean()), float(x.std()) or 1.0
    inputs = np.stack([np.ones(len(x)), (x - middle) / spread], 1)
    weights, ridge = np.zeros(2), np.diag([0.0, _RIDGE * len(x)]) + 1e-9 * np.eye(2)
    for _ in range(100):
        expected = _sigmoid(inputs @ weights)
        slope = inputs.T @ (expected - truth) + ridge @ weights
        curve = (inputs * (expected * (1 - expected))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    slope_of_x = max(float(weights[1]) / spread, slope_at_least)
    return Line(slope_of_x, float(weights[0]) - slope_of_x * middle)


def _log_sum(logs: Values, weights: Values | None) -> float:
    top = float(logs.max())
    parts = np.exp(logs - top)
    return top + float(np.log((parts if weights is None else parts * weights).sum()))


def _sigmoid(x: Values | float) -> Values:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * np.asarray(x, np.float64))))
