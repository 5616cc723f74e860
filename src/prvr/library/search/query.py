"""First step of a search: queries become vectors, and for each track the sections that they may find are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import Track
from prvr.library.search.candidates import Candidates
from prvr.library.search.request import QueryInput, SearchRequest
from prvr.library.store.sections import Ids, SectionsByVideo
from prvr.library.store.snapshot import Snapshot
from prvr.media import load_picture


@dataclass(frozen=True, eq=False)
class TrackQuery:
    """One request as one track sees it."""

    vector: Tensor  # (D,)
    fusion_weight: float  # λ; 0 without TRACE
    sections: SectionsByVideo  # that it may find
    read: SectionsByVideo  # that are scored: these and others, which show how the query scores in general
    reference: Ids | None = None  # for a search among candidates: a random sample of videos, which are read too


def encode_queries(queries: Sequence[QueryInput], track: Track) -> Tensor:
    """Encode sentences and pictures as query vectors (Q, D). A row is zero if the track cannot use that query."""
    embedding = track.embedding
    vectors = torch.zeros(len(queries), embedding.backbone.width)
    texts = {row: query for row, query in enumerate(queries) if isinstance(query, str)}
    if texts:
        vectors[list(texts)] = embedding.sentences(list(texts.values()))
    for row, query in enumerate(queries):
        if not isinstance(query, str):
            vector = embedding.picture(load_picture(query) if isinstance(query, Path) else query)
            if vector is not None:
                vectors[row] = vector
    if not bool(torch.isfinite(vectors).all()):
        raise LibraryError("The encoder returned NaN or infinity for this query. Try other words.")
    return vectors


def track_queries(
    requests: Sequence[SearchRequest],
    vectors: Mapping[str, Tensor],
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
        narrow = [row for row, request in enumerate(requests) if request.uses_candidates and name in candidates]
        named = dict(zip(narrow, candidates[name].of(vectors[name][narrow]), strict=True)) if narrow else {}
        for row, request in enumerate(requests):
            vector = vectors[name][row]
            if not bool(vector.any()):
                continue
            weight = sections.fusion_weight if request.trace else 0.0
            if row in named:
                reference = candidates[name].reference
                some = sections.by_video.of_videos(np.concatenate([named[row], reference]))
                queries[row][name] = TrackQuery(vector, weight, some, some, reference)
            else:
                queries[row][name] = TrackQuery(vector, weight, allowed[request.filters], sections.by_video)
    return queries
