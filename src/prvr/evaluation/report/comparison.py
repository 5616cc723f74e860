"""Two runs side by side: paired differences, wins and losses, and the queries that changed most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from prvr.evaluation.evaluate import Outcome
from prvr.evaluation.records import write_columns
from prvr.evaluation.report.charts import comparison_figure
from prvr.evaluation.report.content import (
    RECALL_COLUMNS,
    Cell,
    Column,
    Drawing,
    ReportSection,
    ReportTable,
    recall_cells,
)
from prvr.evaluation.report.files import WrittenReport, publish
from prvr.evaluation.significance import DRAWS, SEED, compare_ranks
from prvr.scoring import recalls
from prvr.training import RunError

SHOWN = 12
_SCORINGS = {"witness": "witness", "trace": "TRACE", "base": "base"}  # columns of a record, the final one first
COMPARISON_SECTIONS = ("recalls", "difference", "changes")


@dataclass(frozen=True)
class RunPair:
    """Two runs ranked on the same queries."""

    names: tuple[str, str]
    outcomes: tuple[Outcome, Outcome]
    scorings: tuple[str, str]  # which column each run ranks by
    ranks: tuple[Tensor, Tensor]  # (Q,) each, in the first run's order of queries


def pair_runs(first: Outcome, second: Outcome, paths: tuple[Path, Path]) -> RunPair:
    """Join two evaluations by query; the final scoring of each counts."""
    ids, others = first.record.query_ids, second.record.query_ids
    if set(ids) != set(others) or set(first.dataset.video_ids) != set(second.dataset.video_ids):
        raise RunError(
            f"{paths[0]} ranks {len(ids)} queries over {len(first.dataset)} videos, {paths[1]} {len(others)} over "
            f"{len(second.dataset)}, and they are not the same ones: compare runs on one split of one dataset"
        )
    place = {name: row for row, name in enumerate(others)}
    order = torch.tensor([place[name] for name in ids])
    scorings = _final_scoring(first), _final_scoring(second)
    names = (paths[0].name, paths[1].name) if paths[0].name != paths[1].name else (str(paths[0]), str(paths[1]))
    return RunPair(
        names,
        (first, second),
        scorings,
        (first.record.ranks[scorings[0]], second.record.ranks[scorings[1]][order]),
    )


def _final_scoring(outcome: Outcome) -> str:
    return next(name for name in _SCORINGS if name in outcome.record.ranks)


def write_comparison(found: RunPair, folder: Path, *, only: Sequence[str] = (), command: str) -> WrittenReport:
    """Page, tables, figure, and ranks.csv with every query under both runs."""
    makers = {"recalls": _recalls, "difference": _difference, "changes": _changes}
    sections = [makers[key](found) for key in COMPARISON_SECTIONS if not only or key in only]
    folder.mkdir(parents=True, exist_ok=True)
    captions = found.outcomes[0].dataset.captions
    columns = {"query_id": [c.id for c in captions], "sentence": [c.sentence for c in captions]}
    both = {f"{n}: {s}": r.tolist() for n, s, r in zip(found.names, found.scorings, found.ranks, strict=True)}
    write_columns(folder / "ranks.csv", {**columns, **both})
    about = {
        letter: f"{name}: {outcome.record.protocol.dataset} {outcome.record.protocol.split}, {outcome.selection}"
        for letter, name, outcome in zip("AB", found.names, found.outcomes, strict=True)
    }
    title = f"{found.names[0]} against {found.names[1]}"
    about["made by"] = command
    return publish(sections, folder, title=title, about=about, command=command, whole=not only)


def _recalls(found: RunPair) -> ReportSection:
    rows: list[list[Cell]] = [
        [f"{letter}: {name}", _SCORINGS[scoring], *recall_cells(recalls(ranked))]
        for letter, name, scoring, ranked in zip("AB", found.names, found.scorings, found.ranks, strict=True)
    ]
    columns = [Column("run"), Column("scoring"), *RECALL_COLUMNS]
    return ReportSection(
        "recalls",
        "Recalls",
        "Each run by the scoring it ranks with.",
        [ReportTable("recalls", "Recalls (%)", columns, rows)],
    )


def _difference(found: RunPair) -> ReportSection:
    change = compare_ranks(*found.ranks)
    estimates = [("SumR", change.sum_r), *((f"R@{k}", estimate) for k, estimate in change.at.items())]
    rows: list[list[Cell]] = [[what, e.delta, e.low, e.high, e.p] for what, e in estimates]
    columns = [
        Column("of"),
        Column("B − A", 2, True),
        Column("2.5 %", 2, True),
        Column("97.5 %", 2, True),
        Column("p", 4),
    ]
    moved: list[list[Cell]] = [
        [
            change.count,
            change.wins,
            change.losses,
            change.rank_up,
            change.rank_down,
            change.mean_gain,
            change.median_gain,
        ]
    ]
    titles = ("queries", "wins of B", "losses of B", "rank↑", "rank↓")
    move_columns = [*map(Column, titles), Column("mean gain", 2, True), Column("median gain", 1, True)]
    lead = (
        f"Paired by query: {DRAWS:,} bootstrap samples of query indices, and a one-sided sign flip (is B better?), "
        f"seed {SEED}. Two runs differ by their seeds too: one pair of runs says nothing about two methods."
    )
    first, second = (ranked.numpy() for ranked in found.ranks)
    caption = "Every query's rank under both runs."
    return ReportSection(
        "difference",
        "Paired difference",
        lead,
        [
            ReportTable("difference", "B minus A (points)", columns, rows, strong=[0]),
            ReportTable(
                "wins", "Queries", move_columns, moved, "A win meets more of the cut-offs 1, 5, 10, 100 under B."
            ),
        ],
        [Drawing("ranks", caption, comparison_figure(first, second, found.names))],
    )


def _changes(found: RunPair) -> ReportSection:
    before, after = found.ranks
    ratio = before.double().log() - after.double().log()  # from 50 to 1 counts more than from 1000 to 900
    order = ratio.sort(descending=True, stable=True).indices
    tables = []
    for name, title, rows in (
        ("gained", "Where B is better", [r for r in order[:SHOWN].tolist() if ratio[r] > 0]),
        ("lost", "Where B is worse", [r for r in order.flip(0)[:SHOWN].tolist() if ratio[r] < 0]),
    ):
        captions = found.outcomes[0].dataset.captions
        cells: list[list[Cell]] = [[captions[r].sentence, captions[r].id, int(before[r]), int(after[r])] for r in rows]
        tables.append(
            ReportTable(name, title, [Column("query"), Column("id"), Column("rank in A"), Column("rank in B")], cells)
        )
    return ReportSection("changes", "Queries that changed most", "By the ratio of the two ranks.", tables)
