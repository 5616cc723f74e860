"""What a search is asked: a sentence or a picture, and how the answer should look."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prvr.library.errors import LibraryError
from prvr.library.search.filters import Filters
from prvr.library.search.moments import MomentOptions
from prvr.media import Image

QueryInput = str | Path | Image
GroupBy = Literal["video", "moment"]


@dataclass(frozen=True)
class SearchRequest:
    """One search."""

    query: QueryInput
    """a sentence, or a picture: a ``Path`` or an array (H, W, 3)"""
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
        if not 0 <= self.min_confidence <= 1:
            raise LibraryError(f"min_confidence must lie between 0 and 1, not {self.min_confidence}")

    @property
    def text(self) -> str:
        """The query as shown to a person."""
        return str(self.query) if isinstance(self.query, str | Path) else "a picture"

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
