"""First step of a search: queries become vectors, and for each track the sections that they may find are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES, Track
from prvr.library.search.candidates import Candidates
from prvr.library.search.request import MomentQuery, QueryInput, SearchRequest
from prvr.library.store.background import Floats
from prvr.library.store.blocks import Ids
from prvr.library.store.sections import SectionsByVideo
from prvr.library.store.snapshot import Snapshot
from prvr.media import load_picture, unit_rows


@dataclass(frozen=True, eq=False)
class TrackQuery:
    """One request as one track sees it."""

    vector: Floats  # (D,)
    fusion_weight: float  # λ; 0 without TRACE
    sections: SectionsByVideo  # that it may find
    read: SectionsByVideo  # that are scored: these and others, which show how the query scores in general
    reference: Ids | None = None  # for a search among candidates: a random sample of videos, which are read too


def encode_queries(queries: Sequence[QueryInput], track: Track) -> Floats:
    """Encode sentences and pictures as query vectors (Q, D). A row is zero if the track cannot use that query.

    The rows of moments are zero too: ``add_moments`` fills them in.
    """
    embedding = track.embedding
    vectors = np.zeros((len(queries), embedding.width), np.float32)
    texts = {row: query for row, query in enumerate(queries) if isinstance(query, str)}
    if texts:
        vectors[list(texts)] = embedding.sentences(list(texts.values()))
        vectors[[row for row, text in texts.items() if knows_nothing_of(text, track)]] = 0
    for row, query in enumerate(queries):
        if not isinstance(query, str | MomentQuery):
            vector = embedding.picture(load_picture(query) if isinstance(query, Path) else query)
            if vector is not None:
                vectors[row] = vector
    if not np.isfinite(vectors).all():
        raise LibraryError("The encoder returned NaN or infinity for this query. Try other words.")
    return vectors


def knows_nothing_of(text: str, track: Track) -> bool:
    """Whether a sentence says something, and neither the track's model nor its encoder knows a word of it.

    A model that was trained on `plain` gives such a sentence a vector too, but that vector means nothing.
    """
    found = (track.embedding.understanding(text), track.encoder.understanding(text))
    return all(each is not None and each.ignored and not each.used for each in found)


def add_moments(vectors: Floats, queries: Sequence[QueryInput], track: str, snapshot: Snapshot) -> Floats:
    """Fill in the rows of moments. They ask the track of the pictures; for other tracks their rows stay zero."""
    for row, query in enumerate(queries):
        if isinstance(query, MomentQuery) and track == FRAMES:
            vectors[row] = moment_vector(query, snapshot)
    return vectors


def moment_vector(query: MomentQuery, snapshot: Snapshot) -> Floats:
    """A moment as a query (D,): the mean of its stored tokens, each weighed by the seconds that lie in the moment.

    Tokens and queries are compared with each other, so they lie in one space, whatever the encoder or model.
    """
    video, sections = snapshot.videos.get(query.video), snapshot.tracks.get(FRAMES)
    if video is None or sections is None or sections.by_video.column(query.video) is None:
        raise LibraryError(f"there is no video {query.video} whose pictures can be searched: it may have been removed")
    if video.duration is not None and query.start > video.duration:
        raise LibraryError(f"{video.name} ends after {video.duration:.1f} s: there is nothing at {query.start:g} s")
    spans, tokens = sections.tokens_of_video(query.video)
    end = query.start if query.end is None else query.end
    shared = np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], query.start)  # seconds; below 0: so far apart
    weights = shared.clip(0) if (shared > 0).any() else shared == shared.max()
    return unit_rows(weights.astype(np.float32) @ tokens)


def not_found_for(query: QueryInput, snapshot: Snapshot) -> Ids:
    """The videos that a query must not find: the video of a moment, and files with the same content."""
    if not isinstance(query, MomentQuery):
        return np.zeros(0, np.int64)
    return np.array([query.video, *snapshot.copies.get(query.video, ())], np.int64)


def track_queries(
    requests: Sequence[SearchRequest],
    vectors: Mapping[str, Floats],
    snapshot: Snapshot,
    candidates: Mapping[str, Candidates],
) -> list[dict[str, TrackQuery]]:
    """Decide for each request which sections each track scores.

    Args:
        requests: Q requests.
        vectors: by track, (Q, D).
        snapshot: the library to search.
        candidates: by track, the candidate index; tracks without one are scored whole.

    Returns:
        For each request its queries by track. A track that understands nothing of a request is left out.
    """
    videos_of = {
        filters: snapshot.choose(filters) if filters.any else None
        for filters in {request.filters for request in requests}
    }
    queries: list[dict[str, TrackQuery]] = [{} for _ in requests]
    for name, sections in snapshot.tracks.items():
        allowed = {
            filters: sections.by_video if videos is None else sections.by_video.of_videos(videos)
            for filters, videos in videos_of.items()
        }
        used: list[bool] = np.any(vectors[name], axis=1).tolist()
        narrow = [row for row, each in enumerate(requests) if used[row] and each.uses_candidates and name in candidates]
        named = dict(zip(narrow, candidates[name].of(vectors[name][narrow]), strict=True)) if narrow else {}
        for row, request in enumerate(requests):
            if not used[row]:
                continue
            vector, own = vectors[name][row], not_found_for(request.query, snapshot)
            weight = sections.fusion_weight if request.trace else 0.0
            if row in named:
                reference = candidates[name].reference
                some = sections.by_video.of_videos(np.concatenate([named[row], reference]))
                queries[row][name] = TrackQuery(vector, weight, some.without(own), some, reference)
            else:
                found = allowed[request.filters].without(own)
                queries[row][name] = TrackQuery(vector, weight, found, sections.by_video)
    return queries
