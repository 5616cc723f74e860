"""Searches of one pass, from what was typed to pages of hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import Track
from prvr.library.search.asking import Question, Wanted
from prvr.library.search.candidates import Candidates
from prvr.library.search.fusing import DEPTH
from prvr.library.search.rank import Ranked
from prvr.library.search.searching import Ranking, SearchOptions, look
from prvr.library.store.snapshot import Snapshot
from prvr.media.frames import Image
from prvr.media.pictures import load_picture

Query = str | Path | Image


class Ranker(Protocol):
    """Who scores and ranks: this process (``Here``), or others that are asked (``prvr.cluster``)."""

    @property
    def snapshot(self) -> Snapshot: ...
    def rank(self, question: Question) -> Ranked: ...


def encode_queries(track: Track, queries: Sequence[Query]) -> torch.Tensor:
    """(Q, D); a row is zero where the track has nothing to say to a query."""
    embedding = track.embedding
    found = torch.zeros(len(queries), embedding.backbone.width)
    texts = {number: query for number, query in enumerate(queries) if isinstance(query, str)}
    if texts:
        found[list(texts)] = embedding.sentences(list(texts.values()))
    for number, query in enumerate(queries):
        if not isinstance(query, str):
            vector = embedding.picture(load_picture(query) if isinstance(query, Path) else query)
            if vector is not None:
                found[number] = vector
    if not bool(torch.isfinite(found).all()):
        raise LibraryError("the encoder gave numbers that are none (NaN or infinite) for this query: use other words")
    return found


def question_of(
    vectors: Mapping[str, torch.Tensor], options: Sequence[SearchOptions], candidates: Mapping[str, Candidates]
) -> Question:
    """What a pass asks: queries (Q, D) by track; ``candidates``: of tracks that have an index."""
    narrow = [row for row, one in enumerate(options) if one.narrows]
    named = {
        name: dict(zip(narrow, index.of(vectors[name][narrow]), strict=True)) if narrow else {}
        for name, index in candidates.items()
    }
    understood = torch.stack([each.any(1) for each in vectors.values()])  # (tracks, Q)
    several = set(understood.sum(0).gt(1).nonzero().flatten().tolist())  # rankings to be fused
    wanted = tuple(
        Wanted(
            trace=one.trace,
            filters=one.filters.fixed(),
            depth=max(one.through, DEPTH) if row in several or one.group_by == "moment" else one.through,
            candidates={name: found[row] for name, found in named.items() if row in found},
        )
        for row, one in enumerate(options)
    )
    drawn = {name: index.drawn for name, index in candidates.items()}
    return Question({name: each.numpy() for name, each in vectors.items()}, wanted, drawn)


def rank(ranker: Ranker, question: Question, options: Sequence[SearchOptions]) -> list[Ranking | None]:
    """A ranking of each search that some track understands, with the evidence that its page needs."""
    ranked = ranker.rank(question)
    rankings = [
        Ranking(tracks, ranker.snapshot.videos, one) if tracks else None
        for tracks, one in zip(ranked.rows, options, strict=True)
    ]
    there = [(row, ranking) for row, ranking in enumerate(rankings) if ranking is not None]
    ranked.know([(row, *each) for row, ranking in there for each in ranking.voters()])
    ranked.know([(row, *each) for row, ranking in there for each in ranking.shown()])
    look([(ranking, *each) for _, ranking in there for each in ranking.wanted])
    return rankings
