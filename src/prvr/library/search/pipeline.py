"""One search from beginning to end, for several requests at once.

    request ─▶ encode ─▶ score ─▶ rank ─▶ explain ─▶ result

Each step is a function of plain data in a file of its own; read them in this order: ``request.py``, ``query.py``,
``score.py``, ``rank.py``, ``explain.py``, ``results.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.candidates import Candidates
from prvr.library.search.explain import explain_pages
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.query import track_queries
from prvr.library.search.rank import TrackRanking, rank_requests, rank_track
from prvr.library.search.request import QueryInput, SearchRequest
from prvr.library.search.results import ReadLines, SearchResult, not_understood, result_of
from prvr.library.search.score import score_queries
from prvr.library.store.snapshot import Snapshot
from prvr.scoring import ScoringPool

EncodeQueries = Callable[[str, Sequence[QueryInput]], Tensor]  # track name, queries -> vectors (Q, D)


def run_search(
    requests: Sequence[SearchRequest],
    snapshot: Snapshot,
    *,
    encode: EncodeQueries,
    candidates: Mapping[str, Candidates],
    knowledge: Knowledge,
    lines: ReadLines,
    pool: ScoringPool,
) -> list[SearchResult]:
    """Answer requests.

    Args:
        requests: Q requests.
        snapshot: the library to search.
        encode: encodes queries as one track's vectors (Q, D); a row is zero if the track cannot use that query.
        candidates: by track, the candidate index for approximate searches.
        knowledge: how far the answers of the pictures can be trusted.
        lines: reads what is said in a video between two times.
        pool: the threads that score.
    """
    vectors = {name: encode(name, [request.query for request in requests]) for name in snapshot.tracks}
    queries = track_queries(requests, vectors, snapshot, candidates)
    tracks: list[dict[str, TrackRanking]] = [{} for _ in requests]
    for name, sections in snapshot.tracks.items():
        rows = [row for row, of_request in enumerate(queries) if name in of_request]
        if rows:
            of_track = [queries[row][name] for row in rows]
            known = knowledge if name == FRAMES else Knowledge()
            by_track = rank_track(of_track, score_queries(of_track, sections, pool), sections, known)
            for row, track_ranking in zip(rows, by_track, strict=True):
                tracks[row][name] = track_ranking
    rankings = rank_requests(requests, tracks, snapshot)
    pages = explain_pages(rankings, snapshot, pool)
    results = []
    for request, ranking, page in zip(requests, rankings, pages, strict=True):
        if ranking is None or page is None:
            results.append(not_understood(request, knowledge))
        else:
            results.append(result_of(ranking, page, snapshot, knowledge, lines))
    return results
