"""One search from beginning to end, for several requests at once.

    request ─▶ encode ─▶ score ─▶ rank ─▶ explain ─▶ result
        └──────────── words ────────┘

Each step is a function of plain data in a file of its own; read them in this order: ``request.py``, ``query.py``,
``score.py``, ``words.py``, ``rank.py``, ``explain.py``, ``results.py``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.candidates import Candidates
from prvr.library.search.explain import explain_pages
from prvr.library.search.filters import Filters
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.query import TrackQuery, add_moments, track_queries
from prvr.library.search.rank import rank_requests
from prvr.library.search.request import QueryInput, SearchRequest
from prvr.library.search.results import ReadLines, SearchResult, not_understood, result_of
from prvr.library.search.score import SectionScorer, score_queries, score_sections
from prvr.library.search.track_rank import TrackRanking, rank_track
from prvr.library.search.witness import WitnessedRanking, rank_again
from prvr.library.search.words import WordMatches, find_words
from prvr.library.store.background import Floats
from prvr.library.store.sections import TrackSections
from prvr.library.store.snapshot import Snapshot

if TYPE_CHECKING:
    from prvr.library.ingest.witness import SentenceWords

EncodeQueries = Callable[[str, Sequence[QueryInput]], Floats]  # track name, queries -> vectors (Q, D)
ReadWords = Callable[[Sequence[str]], "Mapping[str, SentenceWords]"]


def run_search(
    requests: Sequence[SearchRequest],
    snapshot: Snapshot,
    *,
    encode: EncodeQueries,
    words_of: ReadWords,
    candidates: Mapping[str, Candidates],
    knowledge: Knowledge,
    words: Callable[[], AbstractContextManager[sqlite3.Connection]],
    lines: ReadLines,
    scorer: SectionScorer,
) -> list[SearchResult]:
    """Answer requests.

    Args:
        requests: Q requests.
        snapshot: the library to search.
        encode: encodes queries as one track's vectors (Q, D); a row is zero if the track cannot use that query.
        words_of: reads the words of sentences for the witness of a trained model; empty without one.
        candidates: by track, the candidate index for approximate searches.
        knowledge: how far the answers of the pictures can be trusted.
        words: opens the database of words in names and subtitles.
        lines: reads what is said in a video between two times.
        scorer: scores sections.
    """
    asked = [request.query for request in requests]
    vectors = {name: add_moments(encode(name, asked), asked, name, snapshot) for name in snapshot.tracks}
    said = words_of([text for text in asked if isinstance(text, str)])
    queries = track_queries(requests, vectors, snapshot, candidates)
    tracks: list[dict[str, TrackRanking]] = [{} for _ in requests]
    for name, sections in snapshot.tracks.items():
        rows = [row for row, of_request in enumerate(queries) if name in of_request]
        if rows:
            of_track = [queries[row][name] for row in rows]
            known = knowledge if name == FRAMES else Knowledge()
            varied = score_variations([requests[row] for row in rows], of_track, sections, known, encode, scorer)
            scores = score_queries(of_track, sections, scorer)
            ranked = []
            for place, row in enumerate(rows):
                one = slice(place, place + 1)
                about = known if requests[row].sentence is not None else Knowledge()  # which is about sentences
                (first,) = rank_track(of_track[one], scores[one], sections, about, varied[one])
                words_said = said.get(requests[row].sentence or "") if name == FRAMES else None
                ranked.append(WitnessedRanking(first, scores[place], words_said))
            for row, final in zip(rows, rank_again(ranked, sections), strict=True):
                tracks[row][name] = final
    rankings = rank_requests(requests, tracks, search_words(requests, snapshot, words), snapshot)
    pages = explain_pages(rankings, snapshot, scorer)
    results = []
    for request, ranking, page in zip(requests, rankings, pages, strict=True):
        if ranking is None or page is None:
            results.append(not_understood(request, knowledge))
        else:
            results.append(result_of(ranking, page, snapshot, knowledge, lines))
    return results


def score_variations(
    requests: Sequence[SearchRequest],
    queries: Sequence[TrackQuery],
    sections: TrackSections,
    knowledge: Knowledge,
    encode: EncodeQueries,
    scorer: SectionScorer,
) -> list[Floats | None]:
    """For each request the best score of each variation of its sentence; None if its encoder reads every word.

    A search among candidates has no variations: they would have candidates of their own.
    """
    if knowledge.vary is None or knowledge.calibrations:
        return [None for _ in requests]
    scores: list[Floats | None] = []
    for request, query in zip(requests, queries, strict=True):
        vary = request.sentence is not None and query.reference is None
        texts = knowledge.vary(request.sentence or "") if vary else ()
        found = score_sections(encode(FRAMES, texts), sections, scorer) if texts else None
        scores.append(np.zeros(0, np.float32) if found is None else found.fused(query.fusion_weight).max(1))
    return scores


def search_words(
    requests: Sequence[SearchRequest],
    snapshot: Snapshot,
    words: Callable[[], AbstractContextManager[sqlite3.Connection]],
) -> list[WordMatches]:
    """For each request the videos that hold its words and pass its filters."""
    if not any(request.sentence for request in requests):
        return [{} for _ in requests]

    def choose(filters: Filters, numbers: Iterable[int]) -> set[int]:
        known = {number for number in numbers if number in snapshot.videos}
        return filters.choose(snapshot.videos[number] for number in known) if filters.any else known

    with words() as db:
        return [
            find_words(db, request.sentence, partial(choose, request.filters)) if request.sentence else {}
            for request in requests
        ]
