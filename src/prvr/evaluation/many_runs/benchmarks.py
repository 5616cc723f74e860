"""Runs sorted into benchmarks: the queries that they were ranked on, and for each row of a table its seeds.

Only ranks of one benchmark are ever compared. Two runs share one if they rank the same queries of the same collection,
in the same folder, with features of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from prvr.evaluation.many_runs.evaluated import EvaluatedRun
from prvr.evaluation.tables import RecallSummary, summarise
from prvr.scoring import recalls
from prvr.training import HARMLESS, STARTED_FROM, RunError, config_to_dict, flat_settings

SCORINGS = {  # column of a record -> how a row of it is named
    "backbone": "{}, before TRACE",
    "base": "{}, base branch",
    "trace": "{} + TRACE",
    "hubs": "{} + hub offset",
    "witness": "{} + hub offset and witness",
}
_NOT_SETTINGS = {"seed", "data.visual_feature", *HARMLESS}
_MOST_SETTINGS = 3  # of a row's name; runs that differ in more are called by their folders


@dataclass(frozen=True)
class ScoredRow:
    """One row of a table: a scoring of one method, with the ranks of every seed."""

    name: str
    label: str  # the method without its scoring
    scoring: str
    runs: tuple[EvaluatedRun, ...]
    ranks: Mapping[int, Tensor]  # by seed, (Q,) in the order of the benchmark

    @property
    def method(self) -> str:
        return self.runs[0].config.method

    @property
    def summary(self) -> RecallSummary:
        """Mean and deviation over seeds."""
        return summarise([recalls(found) for found in self.ranks.values()])

    @property
    def sum_r(self) -> float:
        return fmean(recalls(found).sum_r for found in self.ranks.values())


@dataclass(frozen=True)
class Benchmark:
    """Queries, and the rows that were ranked on them."""

    name: str
    collection: str
    split: str
    feature: str | None
    query_ids: tuple[str, ...]
    video_ids: tuple[str, ...]  # the right video of each query
    rows: tuple[ScoredRow, ...]

    def row(self, name: str) -> ScoredRow | None:
        return next((row for row in self.rows if row.name == name), None)


def gather_benchmarks(runs: Sequence[EvaluatedRun], *, same_data: bool = False) -> tuple[list[Benchmark], list[str]]:
    """Sort runs into benchmarks.

    Args:
        same_data: whether datasets of one name and with the same queries are the same, although their folders differ.

    Returns:
        benchmarks, and sentences about datasets that look alike and are kept apart.
    """
    groups: dict[tuple[Any, ...], list[EvaluatedRun]] = {}
    for each in runs:
        groups.setdefault(_identity(each, same_data), []).append(each)
    names = [_dataset_name(group) for group in groups.values()]
    found, notes = [], []
    for group, name in zip(groups.values(), names, strict=True):
        alike = [key for key, other in zip(groups, names, strict=True) if other == name]
        if len(alike) > 1:
            number = 1 + alike.index(_identity(group[0], same_data))
            name = f"{name} ({number})"
            about = f"{len(group[0].record.query_ids):,} queries, features {group[0].feature}, {_place(group[0])}"
            notes.append(f"{name}: {about}. It is never compared with the other one of that name.")
        found.append(_benchmark(name, group))
    if notes and not same_data and len({_identity(each, True) for each in runs}) < len(groups):
        notes.append("If two folders hold the same data, --same-data puts their runs together.")
    return found, notes


def _identity(each: EvaluatedRun, same_data: bool) -> tuple[Any, ...]:
    pairs = frozenset(zip(each.record.query_ids, each.record.video_ids, strict=True))
    protocol = each.record.protocol
    return (protocol.dataset, protocol.split, each.feature, None if same_data else _place(each), pairs)


def _place(each: EvaluatedRun) -> str:
    """The folder of the data; it may be gone, and a run from a hub does not know it."""
    return str(each.run.record.get("data", "an unknown folder"))


def _dataset_name(group: Sequence[EvaluatedRun]) -> str:
    names = {each.dataset for each in group}
    return names.pop() if len(names) == 1 else group[0].record.protocol.dataset


def _benchmark(name: str, group: Sequence[EvaluatedRun]) -> Benchmark:
    first = group[0]
    rows: dict[tuple[str, str], list[EvaluatedRun]] = {}
    for each, label in zip(group, _labels(group), strict=True):
        for scoring in SCORINGS:
            if scoring in each.record.ranks:
                rows.setdefault((label, scoring), []).append(each)
    protocol = first.record.protocol
    ordered = sorted(rows, key=lambda key: [label for label, _ in rows].index(key[0]))
    return Benchmark(
        name=name,
        collection=protocol.dataset,
        split=protocol.split,
        feature=first.feature,
        query_ids=first.record.query_ids,
        video_ids=first.record.video_ids,
        rows=tuple(_row(label, scoring, rows[label, scoring], first) for label, scoring in ordered),
    )


def _row(label: str, scoring: str, runs: Sequence[EvaluatedRun], first: EvaluatedRun) -> ScoredRow:
    alone = not any("trace" in each.record.ranks for each in runs) and scoring == "base"
    ranks: dict[int, Tensor] = {}
    for each in runs:
        if each.seed in ranks:
            other = next(before for before in runs if before.seed == each.seed)
            raise RunError(
                f"{other.run.path} and {each.run.path} have the same method, settings and seed: leave one out"
            )
        place = {query: row for row, query in enumerate(each.record.query_ids)}
        order = torch.tensor([place[query] for query in first.record.query_ids])
        ranks[each.seed] = each.record.ranks[scoring][order]
    name = label if alone else SCORINGS[scoring].format(label)
    return ScoredRow(name, label, scoring, tuple(runs), dict(sorted(ranks.items())))


def _labels(group: Sequence[EvaluatedRun]) -> list[str]:
    """The row that each run belongs to: its method, and the settings in which runs of that method differ."""
    settings = [flat_settings(config_to_dict(each.config)) for each in group]
    labels = []
    for each, own in zip(group, settings, strict=True):
        alike = [other for run, other in zip(group, settings, strict=True) if run.label == each.label]
        names = [name for name in own if name not in _NOT_SETTINGS and len({str(o.get(name)) for o in alike}) > 1]
        if len(names) > _MOST_SETTINGS:
            folder = each.run.path.resolve().name.removesuffix(f"-seed{each.seed}").removesuffix(f"seed{each.seed}")
            labels.append(f"{each.label} ({folder or each.run.path.resolve().parent.name})")
        else:
            labels.append(", ".join([each.label, *(f"{name} {own[name]}" for name in names)]))
    return _with_starts(group, labels)


def _with_starts(group: Sequence[EvaluatedRun], labels: Sequence[str]) -> list[str]:
    """Labels with the run that training started from (``--from``), where that alone tells two runs of a seed apart."""
    starts = [_start(each) for each in group]
    found: dict[tuple[str, int], set[str]] = {}
    for each, label, start in zip(group, labels, starts, strict=True):
        found.setdefault((label, each.seed), set()).add(start)
    several = {label for (label, _), some in found.items() if len(some) > 1}
    pairs = zip(labels, starts, strict=True)
    return [f"{label}, from {start}" if start and label in several else label for label, start in pairs]


def _start(each: EvaluatedRun) -> str:
    """The run that training started from, without its seed: starts that differ in it belong to one row."""
    start = str(each.run.record.get(STARTED_FROM) or "")
    return re.sub(rf"[-/\\]?seed{each.seed}$", "", start)
