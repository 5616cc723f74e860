"""Search a library that may be damaged: videos whose vectors or rows are not what was written are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prvr.library.errors import DamagedVectors, LibraryError
from prvr.library.search.results import SearchResult
from prvr.library.store.snapshot import Snapshot


def search_undamaged(
    snapshot: Snapshot,
    *,
    search: Callable[[Snapshot], list[SearchResult]],
    changed_rows: Callable[[Snapshot, Iterable[int]], set[int]],
    leave_out: Callable[[Snapshot, frozenset[int]], Snapshot],
) -> list[SearchResult]:
    """Search, and search again without videos that turn out to be damaged. The results say how many were left out.

    Args:
        snapshot: the library to search.
        search: answers requests; may raise ``DamagedVectors``.
        changed_rows: those of some videos about which the library does not say what was written.
        leave_out: the snapshot without damaged videos.

    Raises:
        DamagedVectors: nothing is left to search.
    """
    results: list[SearchResult] | None = None
    while results is None:
        if not snapshot.tracks and snapshot.damaged:
            raise DamagedVectors(snapshot.damaged)
        try:
            results = search(snapshot)
            hits = [*dict.fromkeys(hit.video.id for result in results for hit in result)]  # the best come first
            damaged = snapshot.damaged_among(hits) | changed_rows(snapshot, hits)
            if damaged:
                raise DamagedVectors(damaged)
        except DamagedVectors as found:
            if not snapshot.holds(found.videos):  # else this would go on for ever
                raise LibraryError("The library's files changed while they were read. Try again.") from None
            snapshot, results = leave_out(snapshot, found.videos), None
    return [result.with_note(snapshot.damage_note) for result in results]
