"""What a search says about itself: is it there at all (*presence*), and is this video the one (*confidence*)?

A library made with a calibrated run answers in probabilities (``prvr.scoring.Calibration``). Any other library has no
searches whose truth is known, so it answers the first question only, in words.

With an encoder that knows few words, a search *stands out* if nine of ten **variations** of its sentence (one colour,
shape or direction exchanged for another) score lower everywhere in the library. With any other encoder, both must hold:

- **Its best video leads.** Sorted from the best, the scores of unrelated videos fall in steps; the first step, compared
  with the ones after it, tells how rarely chance alone leads by so much.
- **Other sentences do not score as high.** Its best score is above that of most background sentences.

Neither depends on filters, on the page or on other searches: all videos of the library count. But if another video than
the one that scores best is shown first, the most that is said is *maybe* (``TrackRanking.presence``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prvr.library.store.background import Background, Floats
from prvr.scoring import Calibration, LibraryOdds

PresenceWord = Literal["stands out", "maybe", "nothing stands out"]
SURE = 0.9  # a probability from which a search counts as confident
FEWEST_SENTENCES = 20  # with fewer background sentences nothing can be said
_STEPS = 10  # between the best scores
_FEWEST_STEPS = 5
_LEADS, _MAY_LEAD = 0.05, 0.3  # how rarely chance alone leads by so much
_ABOVE, _MAY_BE_ABOVE = 0.8, 0.5  # share of background sentences whose best score is lower
_BEST, _NEARLY_BEST = 0.9, 0.75  # share of variations whose best score is lower
_FEWEST_VARIATIONS = 8


@dataclass(frozen=True)
class Presence:
    """Whether what was asked for is in the library at all, in a word or as a probability; both None: unknown."""

    word: PresenceWord | None = None
    probability: float | None = None

    @property
    def confident(self) -> bool:
        return self.word == "stands out" or (self.probability is not None and self.probability >= SURE)

    @property
    def percent(self) -> str:
        return "" if self.probability is None else f"{100 * self.probability:.0f} %"

    def to_dict(self) -> dict[str, Any]:
        return {"word": self.word, "probability": None if self.probability is None else round(self.probability, 4)}


class Standing:
    """How one query scores on all videos of a library, in one track."""

    def __init__(
        self,
        scores: Floats,
        background: Background,
        calibration: Calibration | None = None,
        weights: NDArray[np.float64] | None = None,
        variations: Floats | None = None,
    ):
        """
        Args:
            scores: (n,) of all videos, or of some, each of which stands for as many as its weight says.
            background: what background sentences score in the same library.
            calibration: None if the library has none.
            weights: (n,); None: 1 each.
            variations: (n,) the best score of each variation of the sentence, for an encoder that knows few words.
        """
        self.scores, self.background, self.variations = scores, background, variations
        self.odds = LibraryOdds(calibration, scores, weights) if calibration is not None and len(scores) else None

    @cached_property
    def presence(self) -> Presence:
        """What the scores of all videos say."""
        if self.odds is not None:
            return Presence(probability=self.odds.presence)
        if self.variations is not None:
            return self._among_variations(self.variations)
        chance = chance_of_lead(self.scores)
        if chance is None or len(self.background.best) < FEWEST_SENTENCES:
            return Presence()
        above = self.above_background(float(self.scores.max()))
        if chance < _LEADS and above >= _ABOVE:
            return Presence("stands out")
        return Presence("maybe" if chance < _MAY_LEAD and above >= _MAY_BE_ABOVE else "nothing stands out")

    def _among_variations(self, variations: Floats) -> Presence:
        if len(variations) < _FEWEST_VARIATIONS or not len(self.scores):
            return Presence()
        lower = float((variations < self.scores.max()).mean())
        if lower >= _BEST:
            return Presence("stands out")
        return Presence("maybe" if lower >= _NEARLY_BEST else "nothing stands out")

    def confidence(self, score: float) -> float | None:
        """The probability that a video with this score is right; None without a calibration."""
        return None if self.odds is None else self.odds.right(score)

    def above_background(self, score: float) -> float:
        """The share of background sentences whose best score is lower.

        >>> Standing(np.zeros(1, np.float32), Background(np.linspace(0, 1, 99, dtype=np.float32))).above_background(0.5)
        0.49
        """
        best = self.background.best
        return int(np.searchsorted(best, score, side="left")) / (len(best) + 1)


def chance_of_lead(scores: Floats) -> float | None:
    """How often the best of unrelated videos leads by as much as this; None if there are too few to tell.

    If scores have an exponential tail, the steps between them, times their places, are alike in size (Rényi). So the
    first step is compared with the mean of the next ones. Equal scores count once: a copy of a video is no rival.

    >>> even, ahead = np.arange(20, dtype=np.float32), np.append(np.arange(19), 60).astype(np.float32)
    >>> chance_of_lead(even) > 0.5, chance_of_lead(ahead) < 0.05
    (True, True)
    """
    best = np.unique(scores)[::-1][: _STEPS + 1].astype(np.float64)
    steps = (best[:-1] - best[1:]) * np.arange(1, len(best))
    others = len(steps) - 1
    if others < _FEWEST_STEPS:
        return None
    return float((1 + steps[0] / steps[1:].sum()) ** -others)
