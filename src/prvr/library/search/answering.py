"""A ranking becomes a page of hits."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

from prvr.library.search.results import Hit, SearchResult
from prvr.library.search.searching import CONFIDENT, Ranking, SearchOptions

Describe = Callable[[Hit], Hit]


def answer(query: str, ranking: Ranking, began: float, describe: Describe) -> SearchResult:
    """A page of hits."""
    options = ranking.options
    best = ranking.first(1)
    if not best:
        return nothing(query, "no video of the library passes the filters", began)
    top = ranking.confidence(best[0])
    confident = top is not None and top >= CONFIDENT
    if options.group_by == "video":
        more = len(ranking.passing) > options.offset + options.limit
        found = [ranking.hits_of(video, ranking.home(video))[0] for video in ranking.page]
    else:
        sure = (hit for hit in ranking.by_moment() if ranking.sure(hit.confidence))
        found = list(islice(sure, options.offset, options.offset + options.limit + 1))
        more = len(found) > options.limit
    hits = tuple(describe(hit) for hit in found[: options.limit])
    return SearchResult(
        query=query,
        hits=hits,
        confident=confident,
        message=_message(confident, top, bool(hits), options),
        total=ranking.total,
        next_offset=options.offset + options.limit if more else None,
        seconds=time.perf_counter() - began,
    )


def _message(confident: bool, top: float | None, any_hits: bool, options: SearchOptions) -> str:
    if options.offset:
        return "" if any_hits else f"there are no results after the first {options.offset}"
    if not any_hits:
        return f"nothing reaches the confidence that was asked for ({options.min_confidence:g})"
    if top is None:
        return "confidence is unknown: the encoder understands too few of the background sentences"
    return "" if confident else "no confident match: nothing stands out; the nearest are shown"


def nothing(query: str, message: str, began: float) -> SearchResult:
    return SearchResult(query, (), False, message, 0, None, time.perf_counter() - began)
