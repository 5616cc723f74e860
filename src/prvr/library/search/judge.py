"""How well a library answers sentences whose videos and moments are known.

known = rendered_queries(world, "test")
found = judge(lib, known, trace=True)
found.recall[1], found.recall.sum_r, found.overlaps.mean()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from prvr.library.errors import LibraryError
from prvr.library.ingest.files import absolute
from prvr.library.ingest.tracks import FRAMES
from prvr.library.library import Library
from prvr.library.search.moments import MomentOptions, find_stretches, overlap
from prvr.library.search.pair_evidence import evidence_of
from prvr.library.search.rank import Table, TableTrack
from prvr.library.search.searching import CONFIDENT
from prvr.library.store.sections import Sections
from prvr.scoring import Recall, recalls
from prvr.worlds import RenderedWorld


@dataclass(frozen=True)
class KnownQuery:
    """A sentence, the videos it is true of, and its moment in the one that it was written about."""

    sentence: str
    correct: frozenset[Path]
    video: Path
    start: float  # seconds
    end: float


@dataclass(frozen=True)
class Judgement:
    """What was found for each sentence."""

    ranks: NDArray[np.int64]  # (Q,) best place of a correct video; past the last one where nothing was understood
    overlaps: NDArray[np.float64]  # (Q,) of the best moment in the sentence's own video with the true one, by union
    confident: float  # share of sentences that are said to stand out
    confident_and_right: float  # the same, and a correct video stands first
    confident_without: float  # the same share, had the library held no video that a sentence is true of

    @cached_property
    def recall(self) -> Recall:
        return recalls(torch.from_numpy(self.ranks))


def rendered_queries(world: RenderedWorld, split: str = "test") -> list[KnownQuery]:
    """The sentences of a rendered world's split."""
    return [
        KnownQuery(
            query.sentence,
            frozenset(absolute(world.videos[name]) for name in world.positives(split, query)),
            absolute(world.videos[query.video]),
            query.event.start,
            query.event.end,
        )
        for query in world.queries[split]
    ]


def judge(
    lib: Library, known: Sequence[KnownQuery], *, trace: bool = True, moments: MomentOptions | None = None
) -> Judgement:
    """Rank every video for every sentence by its pictures, and cut a moment out of the sentence's own video."""
    snapshot = lib.snapshot()
    view = snapshot.tracks[FRAMES]
    number_of = {video.path: number for number, video in snapshot.videos.items()}
    _require(lib, known, number_of)
    weight = view.fusion_weight if trace else 0.0
    vectors = lib.encode(FRAMES, [query.sentence for query in known])
    scores = view.score(vectors).final(weight)
    understood = [row for row in range(len(known)) if bool(vectors[row].any())]

    def ranked(row: int, sections: Sections) -> TableTrack:
        return TableTrack(Table.of(view, sections, scores[[row]][:, sections.numbers], weight), 0, vectors[row])

    tracks = {row: ranked(row, view.by_video) for row in understood}
    seen_in = evidence_of(view, [tracks[row].asks(number_of[known[row].video]) for row in understood])
    ranks, overlaps, sure, right, unsure = [], [], [], [], []
    seen = dict(zip(understood, seen_in, strict=True))
    for row, query in enumerate(known):
        if row not in seen:
            ranks.append(len(number_of) + 1)
            overlaps.append(0.0)
            continue
        correct = {number_of[path] for path in query.correct if path in number_of}
        others = np.array(sorted(set(number_of.values()) - correct), np.int64)
        places = [tracks[row].place(number) for number in correct]
        ranks.append(1 + min(place for place in places if place is not None))
        sure.append(_sure(tracks[row]))
        right.append(sure[-1] and ranks[-1] == 1)
        unsure.append(_sure(ranked(row, view.by_video.only(others))))
        curve = seen[row].routed if trace else seen[row].direct
        duration = snapshot.videos[number_of[query.video]].duration
        best = find_stretches(curve, seen[row].spans, duration, moments or MomentOptions())[0]
        overlaps.append(overlap(best.start, best.end, query.start, query.end))
    shares = (float(np.mean(each)) if each else 0.0 for each in (sure, right, unsure))
    return Judgement(np.array(ranks), np.array(overlaps), *shares)


def _require(lib: Library, known: Sequence[KnownQuery], number_of: Mapping[Path, int]) -> None:
    """A sentence whose own video is not there cannot be judged."""
    absent = sorted({query.video for query in known} - set(number_of))
    if absent:
        raise LibraryError(
            f"{lib.folder} does not hold {absent[0]}"
            + (f" and {len(absent) - 1} more" if len(absent) > 1 else "")
            + ", which the known sentences are about: add them, or judge by the sentences of videos that it holds"
        )
    alone = next((query for query in known if query.video not in query.correct), None)
    if alone is not None:
        raise LibraryError(f"{alone.sentence!r} is said to be about {alone.video}, but not to be true of it")


def _sure(track: TableTrack) -> bool:
    """Whether a search would say that its best video stands out."""
    return track.count > 0 and (track.confidence(float(track.scores.max())) or 0.0) >= CONFIDENT
