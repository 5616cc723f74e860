"""A user's indexed videos: add, resume, remove, search, with moments, confidence and evidence."""

from prvr.library.adding import AddProgress, AddReport
from prvr.library.catalogue import Video
from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.evidence import MomentEvidence
from prvr.library.explaining import Explanation, explain_video
from prvr.library.filters import Filters
from prvr.library.library import Library
from prvr.library.moments import MomentOptions
from prvr.library.results import Hit, Missing, SearchResult
from prvr.library.searching import SearchOptions
from prvr.library.settings import LibrarySettings

__all__ = [
    "AddProgress",
    "AddReport",
    "Explanation",
    "Filters",
    "Hit",
    "Library",
    "LibraryError",
    "LibrarySettings",
    "Missing",
    "MomentEvidence",
    "MomentOptions",
    "NoCandidates",
    "SearchOptions",
    "SearchResult",
    "Video",
    "explain_video",
]
