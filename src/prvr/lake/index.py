"""The index of a lake: it names videos that may answer, and only those are read and scored.

Lance searches the column ``stretches``. Rows that were added after the index was built are compared one by one until
``update_index`` adds them, so an old index costs time but misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from prvr.lake.reading import LakeSections
from prvr.lake.tables import DamagedTable, LakeError, Table, explained
from prvr.library import (
    FEWEST_TOKENS,
    Ids,
    IndexSettings,
    NoCandidates,
    Snapshot,
    measure_recall,
    most_tokens,
    reference_videos,
)

if TYPE_CHECKING:
    from lance import LanceDataset

COLUMN, KIND = "stretches", "IVF_SQ"
_CONFIG = "prvr.index"
_LIST_TOKENS = 12_000  # in a list, about; Lance joins lists that are much smaller when rows are added to an index
_MANY_ROWS = 1000  # that are not indexed yet; each of them makes every search slower
_GOOD_RECALL = 0.99


@dataclass(frozen=True)
class LakeIndex:
    """How the index of a track is asked. It is kept in the configuration of the table."""

    probes: int  # partitions to look at
    videos: int  # to name

    @staticmethod
    def of(table: LanceDataset) -> LakeIndex | None:
        """The index of a table, or None if it has none."""
        with explained(table.uri):
            text = table.config().get(_CONFIG)
            built = any(COLUMN in index.field_names for index in table.describe_indices())
        return LakeIndex(**json.loads(text)) if text and built else None


class LakeCandidates:
    """The index of a track beside one version of its sections."""

    def __init__(self, sections: LakeSections, index: LakeIndex, table: LanceDataset | None = None):
        self.sections, self.index, self.table = sections, index, table or sections.table

    @cached_property
    def reference(self) -> Ids:
        return reference_videos(self.sections)

    @cached_property
    def _by_row(self) -> Ids:
        return np.argsort(self.sections.row_ids)

    def of(self, queries: Tensor, probes: int | None = None) -> list[Ids]:
        return [self._near(query, probes or self.index.probes) for query in queries.float().numpy()]

    def _near(self, query: Any, probes: int) -> Ids:
        """The videos of the sections with the nearest stretches."""
        sections = self.sections
        nearest = {"column": COLUMN, "q": query, "k": self.index.videos, "nprobes": probes, "metric": "cosine"}
        try:
            with explained(self.table.uri):
                found = self.table.scanner(["_rowid", "_distance"], nearest=nearest).to_table()
        except DamagedTable as problem:
            remedy = "run `prvr library index` again, or search exactly"
            raise NoCandidates(None, "the candidate index is damaged", remedy) from problem
        rows = found["_rowid"].to_numpy().astype(np.int64)
        ordered = sections.row_ids[self._by_row]
        places = np.searchsorted(ordered, rows).clip(max=len(ordered) - 1)
        live = ordered[places] == rows  # others belong to videos that were removed or replaced
        videos: Ids = np.unique(sections.owners[self._by_row[places[live]]])
        return videos


def build_index(
    tables: Mapping[str, Table],
    snapshot: Snapshot,
    backgrounds: Mapping[str, Tensor],
    settings: IndexSettings,
    report: Callable[[str], None],
) -> list[str]:
    """Build and tune the index of every track that is large enough."""
    usual = IndexSettings()
    if (settings.every, settings.neighbours) != (usual.every, usual.neighbours):
        raise LakeError("a lake indexes merged tokens and names videos itself: leave --every and --neighbours out")
    built = []
    for name, sections in snapshot.tracks.items():
        assert isinstance(sections, LakeSections)
        if int(sections.tokens.sum()) < FEWEST_TOKENS:
            continue
        table = tables[name].open()
        assert table is not None
        tokens = int(sections.tokens.sum())
        lists = settings.lists or max(1, tokens // _LIST_TOKENS)
        report(f"{name}: {tokens:,} tokens in {lists:,} lists")
        with explained(table.uri):
            table.create_index(COLUMN, KIND, metric="cosine", num_partitions=lists, replace=True)
        report(f"{name}: choosing how many lists to look at")
        candidates = LakeCandidates(sections, LakeIndex(1, settings.videos), table)
        probes = settings.probes or _probes(candidates, backgrounds[name], lists)
        with explained(table.uri):
            table.update_config({_CONFIG: json.dumps(asdict(LakeIndex(probes, settings.videos)))})
        built.append(name)
    return built


def _probes(candidates: LakeCandidates, background: Tensor, lists: int) -> int:
    """Double the probes until recall is good."""
    probes = min(8, lists)
    while probes < lists and measure_recall(candidates, background, 10, probes).share < _GOOD_RECALL:
        probes = min(2 * probes, lists)
    return probes


def update_index(table: LanceDataset) -> None:
    """Add rows to the index that were written after it was built, if there are many."""
    for index in table.describe_indices():
        if COLUMN in index.field_names and table.count_rows() - index.num_rows_indexed >= _MANY_ROWS:
            table.optimize.optimize_indices()


def open_candidates(snapshot: Snapshot, library: str) -> dict[str, LakeCandidates]:
    """By track, the index beside its sections."""
    found = {}
    for name, sections in snapshot.tracks.items():
        assert isinstance(sections, LakeSections)
        if (index := LakeIndex.of(sections.table)) is not None:
            found[name] = LakeCandidates(sections, index)
    if not found and most_tokens(snapshot) >= FEWEST_TOKENS:
        remedy = "build one with `prvr library index`, or search exactly"
        raise NoCandidates(library, "has no candidate index", remedy)
    return found
