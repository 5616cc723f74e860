"""Indexes of candidates of a library: opened once, built, and compared with exact search."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.search import candidates
from prvr.library.search.candidates import FOLDER, CandidateIndex, Candidates, IndexSettings, build_index
from prvr.library.search.confidence import best_sections
from prvr.library.store.claims import claim
from prvr.library.store.snapshot import Snapshot, TrackView


@dataclass(frozen=True)
class CandidateRecall:
    """How many of the exact best are found."""

    share: float
    best: int  # so many of each query
    queries: int

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % of the exact best {self.best} of {self.queries} sentences"


class OpenIndexes:
    """Indexes beside the latest state of a library; they are opened again when one was built anew."""

    def __init__(self, library: Path):
        self.library = library
        self._lock = threading.Lock()
        self._opened: dict[str, tuple[tuple[int, int], CandidateIndex]] = {}
        self._known: tuple[object, dict[str, Candidates]] = (None, {})

    def beside(self, snapshot: Snapshot) -> dict[str, Candidates]:
        """By track; refuses where no index was built, unless the library is too small for one."""
        with self._lock:
            found = {name: self._open(name) for name in snapshot.tracks}
            there = {name: index for name, index in found.items() if index is not None}
            if not there and _largest(snapshot) >= candidates.FEWEST:
                raise NoCandidates(
                    self.library,
                    "has no index of candidates",
                    "build one with `prvr library index`, or search exactly",
                )
            state = (snapshot.generation, {name: index.about.file for name, index in there.items()})
            if self._known[0] != state:
                made = {name: Candidates(index, snapshot.tracks[name]) for name, index in there.items()}
                self._known = (state, made)
            return self._known[1]

    def _open(self, track: str) -> CandidateIndex | None:
        for last in (False, False, True):  # another process may be just putting a new one in its place
            now = self._stamp(track)
            if now is None:
                return None
            before = self._opened.get(track)
            if before is not None and before[0] == now:
                return before[1]
            try:
                index = CandidateIndex.open(self.library, track)
            except NoCandidates:
                if last or self._stamp(track) == now:
                    raise
                continue
            if index is not None:
                self._opened[track] = (now, index)
                return index
        return None

    def _stamp(self, track: str) -> tuple[int, int] | None:
        """What changes when an index is built anew."""
        try:
            about = (self.library / FOLDER / f"{track}.json").stat()
        except FileNotFoundError:
            return None
        return about.st_mtime_ns, about.st_ino


def _largest(snapshot: Snapshot) -> int:
    """Stretches of the largest track."""
    return max((sum(tokens for _, _, tokens in view.places) for view in snapshot.tracks.values()), default=0)


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
    return measured(Candidates(index, view), bank, 10, probes).share


def measured(named: Candidates, bank: Tensor, best: int, probes: int | None = None) -> CandidateRecall:
    """Recall of background sentences. Their exact scores stand in the library, so that nothing is read for it."""
    view = named.view
    ids, videos = best_sections(view.background, view.owners, view.fusion_weight)
    best = min(best, len(ids))
    understood = np.flatnonzero(view.heard(view.fusion_weight).understood)
    shares = []
    for number, near in zip(understood, named.of(bank[understood], probes) if len(understood) else [], strict=True):
        exact = ids[np.argsort(-videos[:, number], kind="stable")[:best]]
        shares.append(float(np.isin(exact, np.union1d(near, named.drawn)).mean()))
    return CandidateRecall(float(np.mean(shares)) if shares else 1.0, best, len(shares))
