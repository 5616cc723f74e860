"""Samples at a steady rate from frames at irregular times.

A sample at time t is the picture *on screen* at t: the last frame that began at t or before. A slide that is shown for
a minute is sampled sixty times at one frame per second, and a variable frame rate needs no special case. Times are what
a file claims, so there is a limit: ``longest_still`` says how long its pictures may stand still in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Generic, TypeVar

_Frame = TypeVar("_Frame")

TOLERANCE = 5e-4  # seconds: Matroska rounds times to milliseconds
_JITTER = 1.0  # largest backward jump treated as jitter, in seconds; a larger one starts a new time line
_LONGEST_STILL = 3600.0  # seconds that one picture may last in a file that does not state its length
_STILL, _STILL_PER_PICTURE, _MOST_STILL = 3600.0, 600.0, 86_400.0  # seconds; see longest_still


def longest_still(pictures: int) -> float:
    """Seconds that a file with so many decoded pictures may show pictures again: an hour, or ten minutes for each.

    A lecture with fifty slides may last eight hours. A file of a few bytes may not claim to last a year. The most is a
    day.

    >>> longest_still(2), longest_still(50), longest_still(100_000)
    (3600.0, 30000.0, 86400.0)
    """
    return min(_MOST_STILL, max(_STILL, _STILL_PER_PICTURE * pictures))


class PresentationClock:
    """Turns presentation times, which may be missing, repeated or wrong, into times that never decrease.

    >>> clock = PresentationClock(gap=0.5, duration=10.0)
    >>> [clock(t) for t in (0.0, 0.5, None, 1.4, 1.5)]  # None: the file states no time
    [0.0, 0.5, 1.0, 1.4, 1.5]
    >>> [clock(t) for t in (9e9, 2.5)]  # a time past the end of the file is ignored
    [2.0, 2.5]
    """

    def __init__(self, gap: float, duration: float | None = None):
        self.gap = gap
        self.latest = _LONGEST_STILL if duration is None else duration + _JITTER
        self.duration = duration
        self.last: float | None = None
        self.shift = 0.0

    def __call__(self, seconds: float | None) -> float:
        if self.last is None:
            self.last = max(0.0, seconds) if seconds is not None and seconds <= self.latest else 0.0
            return self.last
        expected = self.last + self.gap
        if seconds is None:
            self.last = expected
            return expected
        if not self._plausible(seconds + self.shift):
            self.shift = 0.0 if self._plausible(seconds) else expected - seconds
        self.last = max(self.last, seconds + self.shift)
        return self.last

    def _plausible(self, now: float) -> bool:
        assert self.last is not None
        latest = self.latest if self.duration is not None else self.last + self.latest
        return self.last - _JITTER <= now <= max(latest, self.last + 2 * self.gap)


class Sampler(Generic[_Frame]):
    """Takes frames in order and returns those on screen at the first frame and every 1/rate seconds after it.

    >>> sampler = Sampler[str](rate=1.0)
    >>> [s for time, name in ((0.0, "a"), (0.9, "b"), (3.1, "c")) for s in sampler.push(time, name)]
    [(0.0, 'a'), (1.0, 'b'), (2.0, 'b'), (3.0, 'b')]
    >>> list(sampler.finish(hold=1.5))
    [(4.0, 'c')]
    >>> claimed = [*sampler.push(1e9, "d"), *sampler.push(1e9 + 1, "e")]  # a year of one picture is not believed
    >>> len(claimed), claimed[-1], sampler.cut
    (3600, (1000000000.0, 'd'), True)
    """

    def __init__(self, rate: float):
        if not 0 < rate <= 1000:
            raise ValueError(f"The rate must be between 0 and 1000 frames per second; got {rate}.")
        self.rate = rate
        self.first: float | None = None
        self.taken = 0
        self.held: tuple[float, _Frame] | None = None
        self.pictures = self.repeats = 0  # frames that were pushed, and samples that show one again
        self.cut = False  # whether samples were left out, because pictures stood still for too long

    @property
    def due(self) -> float:
        """The time of the next sample."""
        return (self.first or 0.0) + self.taken / self.rate

    def push(self, time: float, frame: _Frame) -> Iterator[tuple[float, _Frame]]:
        """The samples that are known once a frame begins at ``time``: those before it."""
        if self.first is None:
            self.first = time
        if self.held is not None:
            yield from self._until(time)
        self.held = (time, frame)
        self.pictures += 1

    def finish(self, hold: float) -> Iterator[tuple[float, _Frame]]:
        """The samples of the last frame, which lasts ``hold`` seconds."""
        if self.held is not None:
            yield from self._until(self.held[0] + max(hold, 2 * TOLERANCE))

    def _until(self, time: float) -> Iterator[tuple[float, _Frame]]:
        assert self.held is not None
        most, again = longest_still(self.pictures) * self.rate, False
        while self.due < time - TOLERANCE:
            if again and self.repeats >= most:
                self.cut = True
                self.taken = math.ceil((time - TOLERANCE - (self.first or 0.0)) * self.rate)
                return
            self.repeats += again
            due, self.taken, again = self.due, self.taken + 1, True
            yield due, self.held[1]
