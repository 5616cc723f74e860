"""A library narrowed to a few sections: candidates are scored exactly, all else is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.library import candidates
from prvr.library.candidates import FOLDER, CandidateIndex, IndexSettings, build_index
from prvr.library.claims import claim
from prvr.library.confidence import FEWEST_VIDEOS, Background, best_sections
from prvr.library.errors import LibraryError
from prvr.library.snapshot import Snapshot, TrackView, cut

SAMPLE = 64  # videos at most that are scored whatever the query, to know how it scores anywhere
_SAMPLE_TOKENS = 1 << 16  # and about so many stretches


@dataclass
class NarrowView(TrackView):
    """Some sections of a track. Confidence is still that of the whole."""

    whole: TrackView = field(default_factory=TrackView)
    sample: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # videos drawn at random

    def for_spread(self, scores: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        drawn: NDArray[np.float32] = scores[np.isin(ids, self.sample)]
        return drawn if len(drawn) >= FEWEST_VIDEOS else scores

    def best_background(self, weight: float) -> Background:
        return self.whole.best_background(weight)


@dataclass(frozen=True)
class CandidateRecall:
    """How many of the exact best are found."""

    share: float
    best: int  # so many of each query
    queries: int

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % of the exact best {self.best} of {self.queries} sentences"


def open_indexes(library: Path, snapshot: Snapshot) -> dict[str, CandidateIndex]:
    """The indexes of a snapshot's tracks; refuses where none was built, unless the library is too small for one."""
    found = {name: CandidateIndex.open(library, name) for name in snapshot.tracks}
    largest = max((sum(tokens for _, _, tokens in view.places) for view in snapshot.tracks.values()), default=0)
    if not any(found.values()) and largest >= candidates.FEWEST:
        raise LibraryError(
            f"{library} has no index of candidates: build one with `prvr library index`, or search exactly"
        )
    return {name: index for name, index in found.items() if index is not None}


def build_indexes(
    library: Path,
    snapshot: Snapshot,
    banks: Mapping[str, Tensor],
    settings: IndexSettings,
    said: Callable[[str], None],
) -> dict[str, CandidateIndex]:
    """An index of every track that is large enough; ``banks``: the background sentences as vectors."""
    held = claim(library, Path(FOLDER))
    if held is None:
        raise LibraryError(f"another process is indexing {library}: wait for it")
    made = {}
    try:
        for name, view in snapshot.tracks.items():
            judge = partial(_judged, view, banks[name])
            index = build_index(library, name, view, settings, judge, said)
            if index is not None:
                made[name] = index
    finally:
        held.release()
    return made


def _judged(view: TrackView, bank: Tensor, index: CandidateIndex, probes: int) -> float:
    return measured(view, bank, index, 10, probes).share


def measured(
    view: TrackView, bank: Tensor, index: CandidateIndex, best: int, probes: int | None = None
) -> CandidateRecall:
    """Recall of background sentences. Their exact scores stand in the library, so that nothing is read for it."""
    scores = np.concatenate([shard.arrays["background"].numpy()[shard.rows] for shard in view.shards])  # (S, B, 2)
    ids, videos = best_sections(scores, view.owners, view.fusion_weight)
    best = min(best, len(ids))
    understood = np.flatnonzero((scores[..., 0] != 0).any(0))
    drawn, shares = _drawn(view), []
    for number in understood:
        exact = ids[np.argsort(-videos[:, number], kind="stable")[:best]]
        looked_at = np.union1d(index.videos(view, bank[number : number + 1], probes), drawn)
        shares.append(float(np.isin(exact, looked_at).mean()))
    return CandidateRecall(float(np.mean(shares)) if shares else 1.0, best, len(shares))


def narrowed(
    snapshot: Snapshot, queries: Mapping[str, Tensor], indexes: Mapping[str, CandidateIndex], probes: int | None = None
) -> Snapshot:
    """A snapshot of what may answer any of the queries, (Q, D) for each track; a track without index stays whole."""
    tracks = dict(snapshot.tracks)
    for name, index in indexes.items():
        view = tracks[name]
        drawn = _drawn(view)
        videos = np.union1d(index.videos(view, queries[name], probes), drawn)
        chosen = NarrowView(whole=view, sample=drawn)
        tracks[name] = cut(view, np.flatnonzero(np.isin(view.owners, videos)), chosen)
    return replace(snapshot, tracks=tracks)


def _drawn(view: TrackView) -> NDArray[np.int64]:
    ids, first = np.unique(view.owners, return_inverse=True)
    tokens = np.bincount(first, [tokens for _, _, tokens in view.places])
    order = np.random.default_rng(0).permutation(len(ids))[:SAMPLE]
    few = tokens[order].cumsum() <= _SAMPLE_TOKENS
    few[: 2 * FEWEST_VIDEOS] = True
    drawn: NDArray[np.int64] = ids[order[few]]
    return drawn
