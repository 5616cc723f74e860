"""The index of a lake: it names videos that may answer, and only those are read and scored.

Rows that were added after the index was built are compared one by one until ``update_index`` adds them, so an old index
costs time but misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.lake.sections import LakeSections
from prvr.lake.tables import DamagedTable, Table, explained
from prvr.library import (
    FEWEST_TOKENS,
    STRETCHES,
    Ids,
    IndexSettings,
    NoCandidates,
    Snapshot,
    build_stretch_index,
    choose_probes,
    first_videos,
    most_tokens,
    nearest_rows,
    reference_videos,
    rows_to_ask,
)

if TYPE_CHECKING:
    from lance import LanceDataset

_CONFIG = "prvr.index"
_MANY_ROWS = 1000  # that are not indexed yet; each of them makes every search slower


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
            built = any(STRETCHES in index.field_names for index in table.describe_indices())
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

    @cached_property
    def _rows_to_ask(self) -> int:
        return rows_to_ask(self.index.videos, len(self.sections), len(self.sections.by_video.videos))

    def of(self, queries: NDArray[np.float32], probes: int | None = None) -> list[Ids]:
        return [self._near(query, probes or self.index.probes) for query in queries]

    def _near(self, query: Any, probes: int) -> Ids:
        """The videos of the sections with the nearest stretches."""
        sections = self.sections
        try:
            with explained(self.table.uri):
                rows = nearest_rows(self.table, query, self._rows_to_ask, probes)
        except DamagedTable as problem:
            remedy = "run `prvr library index` again, or search exactly"
            raise NoCandidates(None, "the candidate index is damaged", remedy) from problem
        ordered = sections.row_ids[self._by_row]
        places = np.searchsorted(ordered, rows).clip(max=len(ordered) - 1)
        live = ordered[places] == rows  # others belong to videos that were removed or replaced
        return first_videos(sections.owners[self._by_row[places[live]]], self.index.videos)


def build_index(
    tables: Mapping[str, Table],
    snapshot: Snapshot,
    backgrounds: Mapping[str, NDArray[np.float32]],
    settings: IndexSettings,
    report: Callable[[str], None],
) -> list[str]:
    """Build and tune the index of every track that is large enough."""
    built = []
    for name, sections in snapshot.tracks.items():
        assert isinstance(sections, LakeSections)
        tokens = int(sections.tokens.sum())
        if tokens < FEWEST_TOKENS:
            continue
        table = tables[name].open()
        assert table is not None
        lists = settings.lists_for(tokens)
        report(f"{name}: {tokens:,} tokens in {lists:,} lists")
        with explained(table.uri):
            build_stretch_index(table, lists)
        probes = settings.probes
        if not probes:
            report(f"{name}: choosing how many lists to look at")
            candidates = LakeCandidates(sections, LakeIndex(lists, settings.videos), table)
            probes = choose_probes(candidates, backgrounds[name], lists)
        with explained(table.uri):
            table.update_config({_CONFIG: json.dumps(asdict(LakeIndex(probes, settings.videos)))})
        built.append(name)
    return built


def update_index(table: LanceDataset) -> None:
    """Add rows to the index that were written after it was built, if there are many."""
    for index in table.describe_indices():
        if STRETCHES in index.field_names and table.count_rows() - index.num_rows_indexed >= _MANY_ROWS:
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
