"""Scores to probabilities: is it there at all, and is this video the one?

A score first becomes a likelihood ratio: how much more often pairs that match score like this than pairs that do not.
Its logarithm is a straight line over the score (``match``). Bayes' rule then weighs all V videos of a library against
each other and against the chance that none of them matches, which before looking is one half:

    odds that the library holds it        mean over videos of exp(match(score))
    odds that video i is right            exp(match(i)) / (V + sum over the other videos)

Videos of one library are not independent, so both are straightened once more by a line in log odds (``presence``,
``right``), and by how many videos there are: more videos that are alike mislead less often than V independent ones.
What speaks for the first video also speaks for the library holding it: ``presence`` looks at both, and is never below
``right``. All lines are fitted on searches whose truth is known: each query once with its videos in the library, and
once with them left out, in the whole library and in halves of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_NEGATIVES = 256  # pairs of each query that do not match, at most, for the likelihood ratio
FEWEST_QUERIES = 20  # with fewer, nothing is fitted
_BINS = 10
_RIDGE = 1e-3
_SIZE_RIDGE = 0.1  # halves tell little about other sizes, so what they say about size counts less
_HALVES = 4
_LEAST_SLOPE = 0.05  # a higher score never makes an answer less probable


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
    presence_by_first: float  # what each unit of the first video's log odds adds to those of presence
    queries: int  # that it was fitted on
    videos: int
    presence_by_size: float = 0.0  # what a library e times as large as that adds to the log odds
    right_by_size: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Calibration:
        lines = {name: Line(**found[name]) for name in ("match", "presence", "right")}
        return Calibration(
            **lines,
            presence_by_first=float(found["presence_by_first"]),
            queries=int(found["queries"]),
            videos=int(found["videos"]),
            presence_by_size=float(found.get("presence_by_size", 0.0)),  # files of older versions have none
            right_by_size=float(found.get("right_by_size", 0.0)),
        )


class LibraryOdds:
    """One query's scores on all videos of a library, seen through a calibration."""

    def __init__(self, calibration: Calibration, scores: NDArray[np.float32], weights: Values | None = None):
        """``scores`` (n,): of all videos, or of some, each of which stands for as many as its weight says."""
        self.calibration, self.first = calibration, float(scores.max())
        logs = calibration.match(scores.astype(np.float64))
        self.log_total = _log_sum(logs, weights)  # log of the sum of likelihood ratios
        self.videos = float(len(scores) if weights is None else weights.sum())
        self.log_size = float(np.log(self.videos / max(1, calibration.videos)))

    @property
    def presence(self) -> float:
        """The probability that some video matches."""
        by_first = self.calibration.presence_by_first * self.log_odds(self.first)
        by_size = self.calibration.presence_by_size * self.log_size
        odds = self.calibration.presence(self.log_mean) + by_first + by_size
        return max(float(_sigmoid(odds)), self.right(self.first))

    @property
    def log_mean(self) -> float:
        """Log odds that some video matches, before they are straightened."""
        return self.log_total - float(np.log(self.videos))

    def right(self, score: float) -> float:
        """The probability that a video with this score, which is one of the library's, matches."""
        by_size = self.calibration.right_by_size * self.log_size
        return float(_sigmoid(self.calibration.right(self.log_odds(score)) + by_size))

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
    if len(usable) < FEWEST_QUERIES or scores.shape[1] < 3:
        return None
    even, match = Line(1.0, 0.0), _fit_match(scores, positives, usable)
    fitted = Calibration(match, even, even, 0.0, len(usable), scores.shape[1])
    parts = [(scores, positives), *(_half(scores, positives, seed) for seed in range(_HALVES))]
    known = KnownSearches.joined([known_searches(fitted, *part) for part in parts])
    by_mean, by_first, by_size, intercept = _fit_logistic(
        np.stack([known.log_mean, known.log_odds, known.log_size], 1), known.present, (_RIDGE, _RIDGE, _SIZE_RIDGE)
    )
    if min(by_mean, by_first) < 0:  # one of them says nothing that the other does not
        by_first = 0.0
        by_mean, by_size, intercept = _fit_by_size(known.log_mean, known.log_size, known.present)
    slope, right_by_size, right_intercept = _fit_by_size(known.log_odds, known.log_size, known.right)
    return replace(
        fitted,
        presence=Line(by_mean, intercept),
        presence_by_first=by_first,
        presence_by_size=by_size,
        right=Line(slope, right_intercept),
        right_by_size=right_by_size,
    )


def _half(
    scores: NDArray[np.float32], positives: Sequence[Sequence[int]], seed: int
) -> tuple[NDArray[np.float32], list[list[int]]]:
    """Half of the videos and the queries that they answer, so that a calibration holds for more than one size."""
    kept = np.sort(np.random.default_rng(seed).permutation(scores.shape[1])[: max(3, scores.shape[1] // 2)])
    place = {int(column): number for number, column in enumerate(kept)}
    found = [[place[column] for column in right if column in place] for right in positives]
    rows = [row for row, right in enumerate(found) if right]
    return scores[rows][:, kept], [found[row] for row in rows]


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
    presence: Values  # probability that it is there
    first: Values  # probability that the first answer is right
    log_mean: Values  # both before they are straightened, as log odds
    log_odds: Values
    log_size: Values  # of the library, beside the one that was calibrated on

    @staticmethod
    def joined(parts: Sequence[KnownSearches]) -> KnownSearches:
        return KnownSearches(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(parts[0]))
        )

    @property
    def quality(self) -> CalibrationQuality:
        """How true the probabilities are."""
        return CalibrationQuality.of(self.presence, self.present, self.first, self.right)


def known_searches(
    calibration: Calibration, scores: NDArray[np.float32], positives: Sequence[Sequence[int]]
) -> KnownSearches:
    """What a calibration says of searches whose truth is known."""
    present, right, said = [], [], []
    for row, correct in enumerate(positives):
        if not 0 < len(correct) < scores.shape[1]:
            continue
        for videos in (scores[row], np.delete(scores[row], list(correct))):
            whole = len(videos) == scores.shape[1]
            odds, best = LibraryOdds(calibration, videos), int(videos.argmax())
            present.append(whole)
            right.append(whole and best in correct)
            said.append((odds.presence, odds.right(odds.first), odds.log_mean, odds.log_odds(odds.first)))
    # the size of the whole library in both cases: how much was left out must not tell that something was
    log_size = np.full(len(present), np.log(scores.shape[1] / max(1, calibration.videos)))
    presence, first, log_mean, log_odds = np.array(said).reshape(-1, 4).T
    return KnownSearches(np.array(present), np.array(right), presence, first, log_mean, log_odds, log_size)


@dataclass(frozen=True)
class CalibrationQuality:
    """How true the probabilities of a calibration are, on searches whose truth is known."""

    searches: int
    presence_error: float  # expected calibration error of "it is there"
    presence_noise: float  # the error that perfect probabilities would have on as many searches
    presence_auc: float  # how often a query whose video is there gets more than one whose video is not
    right_error: float  # expected calibration error of "the first is right"
    right_noise: float
    right_auc: float

    @staticmethod
    def of(presence: Values, present: NDArray[np.bool_], first: Values, right: NDArray[np.bool_]) -> CalibrationQuality:
        """From what was said of each search and what was true, (n,) each."""
        return CalibrationQuality(
            searches=len(present),
            presence_error=calibration_error(presence, present),
            presence_noise=calibration_noise(presence),
            presence_auc=area_under_roc(presence, present),
            right_error=calibration_error(first, right),
            right_noise=calibration_noise(first),
            right_auc=area_under_roc(first, right),
        )

    def __str__(self) -> str:
        return (
            f"is it there: calibration error {self.presence_error:.3f} (perfect ones: {self.presence_noise:.3f}), area "
            f"under the ROC {self.presence_auc:.3f}; is the first one it: {self.right_error:.3f} "
            f"({self.right_noise:.3f}), {self.right_auc:.3f} ({self.searches} searches, half of them without their "
            "videos; perfect probabilities have an error too, by chance)"
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


def calibration_noise(probabilities: Values) -> float:
    """The calibration error that these probabilities are expected to have by chance, if they are true.

    In each bin, what is true differs from what was said by about a normal deviation.

    >>> round(calibration_noise(np.full(400, 0.5)), 3), round(calibration_noise(np.full(40, 0.5)), 3)
    (0.02, 0.063)
    """
    bins = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    variances = np.bincount(bins, probabilities * (1 - probabilities), _BINS)
    return float(np.sqrt(2 / np.pi * variances).sum() / max(1, len(probabilities)))


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


def _fit_line(x: Values, truth: NDArray[np.bool_]) -> Line:
    """Logistic regression of one number, whose slope is not negative."""
    slope, intercept = _fit_logistic(x[:, None], truth, (_RIDGE,))
    return Line(max(slope, 0.0), intercept + min(slope, 0.0) * float(x.mean()))


def _fit_by_size(x: Values, log_size: Values, truth: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Logistic regression of a number and a size: both slopes, the first never below the least, and the intercept."""
    slope, by_size, intercept = _fit_logistic(np.stack([x, log_size], 1), truth, (_RIDGE, _SIZE_RIDGE))
    least = max(slope, _LEAST_SLOPE)
    return least, by_size, intercept + (slope - least) * float(x.mean())


def _fit_logistic(x: Values, truth: NDArray[np.bool_], ridges: Sequence[float]) -> list[float]:
    """Logistic regression of numbers (n, k): k slopes and the intercept.

    By Newton's method, with a ridge for each that keeps separable data finite.
    """
    middle, spread = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    inputs = np.column_stack([np.ones(len(x)), (x - middle) / spread])
    count = inputs.shape[1]
    weights, ridge = np.zeros(count), np.diag([0.0, *(len(x) * ridge for ridge in ridges)]) + 1e-9 * np.eye(count)
    for _ in range(100):
        expected = _sigmoid(inputs @ weights)
        slope = inputs.T @ (expected - truth) + ridge @ weights
        curve = (inputs * (expected * (1 - expected))[:, None]).T @ inputs + ridge
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    slopes = weights[1:] / spread
    return [*slopes.tolist(), float(weights[0] - slopes @ middle)]


def _log_sum(logs: Values, weights: Values | None) -> float:
    top = float(logs.max())
    parts = np.exp(logs - top)
    return top + float(np.log((parts if weights is None else parts * weights).sum()))


def _sigmoid(x: Values | float) -> Values:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * np.asarray(x, np.float64))))
