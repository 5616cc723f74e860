"""A user's indexed videos: add, resume, remove, search, with moments, confidence and evidence."""

from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.ingest.add import AddProgress, AddReport
from prvr.library.library import Library
from prvr.library.search.evidence import MomentEvidence
from prvr.library.search.explaining import Explanation, explain_video
from prvr.library.search.filters import Filters
from prvr.library.search.moments import MomentOptions
from prvr.library.search.results import Hit, Missing, SearchResult
from prvr.library.search.searching import SearchOptions
from prvr.library.store.catalogue import Video
from prvr.library.store.settings import LibrarySettings

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
