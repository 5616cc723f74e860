"""One pass over a library, or over a part of it: queries as vectors, and what is asked of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from prvr.library.search.filters import Filters
from prvr.library.search.rank import Ranked, RankedTrack, Table, TableTrack
from prvr.library.store.sections import Ids
from prvr.library.store.snapshot import Snapshot, TrackView


@dataclass(frozen=True)
class Wanted:
    """What ranking needs to know of a search."""

    trace: bool = True
    filters: Filters = field(default_factory=Filters)
    depth: int = 10  # videos of each track that will surely be looked at
    candidates: Mapping[str, Ids] = field(default_factory=dict)  # by track: score these alone; absent: all


@dataclass(frozen=True)
class Question:
    """All searches of a pass; it may travel to whoever holds a part of the library."""

    vectors: Mapping[str, NDArray[np.float32]]  # by track (Q, D); zero where a track has nothing to say to a query
    wanted: tuple[Wanted, ...]
    drawn: Mapping[str, Ids] = field(default_factory=dict)  # by track: videos scored beside any candidates

    def asks(self, row: int, track: str) -> bool:
        return bool(self.vectors[track][row].any())


def passing(filters: Filters, snapshot: Snapshot) -> Ids:
    """Numbers of the videos for which filters hold."""
    return np.array(sorted(filters.choose(snapshot.videos.values())), np.int64)


def rank_here(snapshot: Snapshot, question: Question) -> list[dict[str, TableTrack]]:
    """Score what a snapshot holds, for each search by track. Searches that are alike share a table."""
    chosen = {
        filters: passing(filters, snapshot)
        for filters in {wanted.filters for wanted in question.wanted if wanted.filters.any}
    }
    found: list[dict[str, TableTrack]] = [{} for _ in question.wanted]
    for name, view in snapshot.tracks.items():
        rows = [row for row in range(len(question.wanted)) if question.asks(row, name)]
        narrow = [row for row in rows if name in question.wanted[row].candidates]
        for row, track in _of_candidates(view, question, name, narrow).items():
            found[row][name] = track
        for row, track in _of_all(view, question, name, [row for row in rows if row not in narrow], chosen).items():
            found[row][name] = track
    return found


def _of_all(
    view: TrackView, question: Question, name: str, rows: list[int], chosen: Mapping[Filters, Ids]
) -> dict[int, TableTrack]:
    """In one pass over every section."""
    if not rows:
        return {}
    queries = torch.from_numpy(question.vectors[name][rows])  # a copy
    scores = view.score(queries)
    alike: dict[tuple[bool, Filters], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault((question.wanted[row].trace, question.wanted[row].filters), []).append(place)
    found: dict[int, TableTrack] = {}
    for (trace, filters), places in alike.items():
        weight = view.fusion_weight if trace else 0.0
        sections = view.by_video.only(chosen[filters]) if filters.any else view.by_video
        some = scores.map(lambda tensor: tensor[places]).final(weight)[:, sections.numbers]  # noqa: B023 (at once)
        table = Table.of(view, sections, some, weight)
        found |= {rows[place]: TableTrack(table, number, queries[place]) for number, place in enumerate(places)}
    return found


def _of_candidates(view: TrackView, question: Question, name: str, rows: list[int]) -> dict[int, TableTrack]:
    """Each query's own candidates alone: what else is asked in the same pass changes nothing."""
    found = {}
    for row in rows:
        wanted, drawn = question.wanted[row], question.drawn[name]
        sections = view.by_video.only(np.concatenate([wanted.candidates[name], drawn]))
        weight = view.fusion_weight if wanted.trace else 0.0
        query = torch.from_numpy(question.vectors[name][[row]])
        scores = view.score_some(query, sections.numbers).final(weight)
        found[row] = TableTrack(Table.of(view, sections, scores, weight, drawn), 0, query[0])
    return found


class Here:
    """Ranks a snapshot that is mapped into this process."""

    def __init__(self, snapshot: Snapshot):
        self.snapshot = snapshot

    def rank(self, question: Question) -> Ranked:
        rows: list[dict[str, RankedTrack]] = [{**row} for row in rank_here(self.snapshot, question)]
        return Ranked(rows)
