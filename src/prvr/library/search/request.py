"""What a search is asked: a sentence, a picture or a moment, and how the answer should look."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from prvr.library.errors import LibraryError
from prvr.library.search.filters import Filters
from prvr.library.search.moments import MomentOptions
from prvr.media import Image
from prvr.times import parse_duration

GroupBy = Literal["video", "moment"]


@dataclass(frozen=True)
class MomentQuery:
    """A stretch of a video of the library as a query: what else looks like this?"""

    video: int
    """the number of the video"""
    start: float
    """seconds"""
    end: float | None = None
    """seconds; None: only what is on screen at ``start``"""

    def __post_init__(self) -> None:
        end = self.start if self.end is None else self.end
        if not (math.isfinite(end) and 0 <= self.start <= end):
            raise LibraryError(
                f"a moment needs a start of at least 0 seconds and an end after it, not {self.start} and {self.end}"
            )

    @property
    def address(self) -> str:
        """As ``split_moment`` reads it."""
        return f"{self.video}@{self.start:.3f}" + ("" if self.end is None else f"-{self.end:.3f}")

    def __str__(self) -> str:
        times = f"{self.start:g}" if self.end is None else f"{self.start:g}–{self.end:g}"
        return f"video {self.video} at {times} s"


def split_moment(text: str) -> tuple[str, float, float | None]:
    """A video, and the start and end of a moment of it, as people write them.

    >>> split_moment("films/a.mp4@12.5-18"), split_moment("7@1:02.5")
    (('films/a.mp4', 12.5, 18.0), ('7', 62.5, None))
    """
    found = re.fullmatch(r"(.+)@([0-9:.hms]+)(?:[-–]([0-9:.hms]+))?", text, re.DOTALL)
    try:
        if found is None:
            raise ValueError
        return found[1], parse_duration(found[2]), None if found[3] is None else parse_duration(found[3])
    except ValueError:
        raise LibraryError(
            f"{text!r} names no moment: write the video, @ and the time, like film.mp4@12.5 or film.mp4@1:02-1:08"
        ) from None


LONGEST_SENTENCE = 2000  # characters; every encoder uses far fewer
QueryInput = str | Path | Image | MomentQuery


@dataclass(frozen=True)
class SearchRequest:
    """One search."""

    query: QueryInput
    """a sentence; a picture: a ``Path`` or an array (H, W, 3); or a moment of a video, which is itself not found"""
    limit: int = 10
    """hits on a page"""
    offset: int = 0
    """hits to skip before the page begins"""
    group_by: GroupBy = "video"
    """one hit per video, or one per moment"""
    filters: Filters = field(default_factory=Filters)
    """which videos may be found"""
    min_confidence: float = 0.0
    """leave out hits that are less confident"""
    trace: bool = True
    """verify peaks with TRACE; off: the plain maximum over time"""
    moments: MomentOptions = field(default_factory=MomentOptions)
    """how moments are cut out of the evidence"""
    approximate: bool = False
    """score only the videos that the candidate index names; a search with filters always scores all"""

    def __post_init__(self) -> None:
        if self.limit < 1 or self.offset < 0:
            raise LibraryError(f"limit must be at least 1 and offset at least 0, not {self.limit} and {self.offset}")
        if self.sentence is not None and len(self.sentence) > LONGEST_SENTENCE:
            raise LibraryError(f"a sentence has at most {LONGEST_SENTENCE:,} characters, not {len(self.sentence):,}")
        if not 0 <= self.min_confidence <= 1:
            raise LibraryError(f"min_confidence must lie between 0 and 1, not {self.min_confidence}")
        if self.min_confidence > 0 and self.sentence is None:
            raise LibraryError(
                "min_confidence cannot be used with a picture or a moment: probabilities are known for sentences only"
            )

    @property
    def sentence(self) -> str | None:
        """The query, if it is a sentence."""
        return self.query if isinstance(self.query, str) else None

    @property
    def text(self) -> str:
        """The query as shown to a person."""
        return "a picture" if isinstance(self.query, np.ndarray) else str(self.query)

    @property
    def page_end(self) -> int:
        """Hits up to the end of the page."""
        return self.offset + self.limit

    def accepts(self, confidence: float | None) -> bool:
        """Whether a hit with this confidence is shown."""
        return (confidence or 0.0) >= self.min_confidence

    @property
    def uses_candidates(self) -> bool:
        return self.approximate and not self.filters.any
