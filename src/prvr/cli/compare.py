"""``prvr compare``: the paper's tables over methods, datasets and seeds, with paired tests."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import tyro

from prvr.cli.console import count, print_table, report_table
from prvr.cli.hub_runs import RunPath, local_run
from prvr.errors import UserError, did_you_mean
from prvr.evaluation import (
    Benchmark,
    EvaluatedRun,
    PublishedRows,
    RunCost,
    RunsComparison,
    ScoredRow,
    evaluated_run,
    find_runs,
    gather_benchmarks,
    is_evaluated,
    measure_changes,
    measure_cost,
    write_runs_comparison,
)
from prvr.terminal import Console
from prvr.training import SWEEP_FILE, Run, RunError, choose_device, read_sweep


@dataclass(frozen=True)
class CompareArguments:
    """Compare many runs: recalls as mean ± sd over seeds, paired tests, cost, and published numbers beside them.

    `prvr compare sweeps/first` takes all finished runs of a sweep, `prvr compare runs/*` single ones; both can be
    mixed. Runs of one method that differ only in their seed make one row; where settings differ too, the row names
    them. A run that has not been ranked on the split is ranked now, and what `prvr eval` keeps of every query
    (RUN/eval) is reused afterwards.

    With --out (or for one sweep, in SWEEP/compare): comparison.html, comparison.md, CSV and LaTeX of every table,
    table1.tex in the paper's layout, and ranks/ with every query's rank, from which all numbers can be recomputed.
    """

    runs: Annotated[tyro.conf.Positional[tuple[RunPath, ...]], tyro.conf.arg(metavar="RUN|SWEEP")]
    """folders of runs and of sweeps (or a sweep's .toml file)"""
    against: str | None = None
    """row that the others are compared with, or a run [default: the first base branch; without TRACE, the first row]"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """folder to write [default: SWEEP/compare for one sweep; else nothing is written]"""
    split: str = "test"
    """split to rank"""
    weights: str | None = None
    """which weights: average, best, last or backbone [default: each run's selection]"""
    published: PublishedRows = "same"
    """published numbers: of the same methods, of all methods, or none"""
    same_data: bool = False
    """datasets of one name in different folders hold the same data, so their runs may be compared"""
    eval: bool = True
    """--no-eval: read what was kept, and rank and time nothing"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""


def compare_command(argv: list[str]) -> int:
    arguments = tyro.cli(CompareArguments, prog="prvr compare", args=argv)
    if not arguments.runs:
        raise RunError("name runs or sweeps: prvr compare RUN …, or prvr compare SWEEP")
    paths = [read_sweep(path).out if path.suffix == ".toml" else path for path in arguments.runs]
    runs, notes = find_runs(paths)
    device = choose_device(arguments.device) if arguments.eval else None
    evaluated = _evaluate(runs, arguments, device)
    benchmarks, apart = gather_benchmarks(evaluated, same_data=arguments.same_data)
    reference = _reference(benchmarks, arguments.against)
    with Console(stderr=True).status("drawing videos again and again for the intervals"):
        changes, pooled = measure_changes(benchmarks, reference)
    costs, untimed = _costs(benchmarks, device)
    notes += [*apart, *_remarks(benchmarks, reference, arguments.split), *untimed]
    found = RunsComparison(benchmarks, reference, changes, pooled, costs, arguments.published, notes)
    console = Console(highlight=False, soft_wrap=True)
    _show(found, console)
    folder = arguments.out or (paths[0] / "compare" if len(paths) == 1 and (paths[0] / SWEEP_FILE).exists() else None)
    if folder is None:
        console.print("--out FOLDER writes a page, CSV, LaTeX and Markdown", style="dim")
        return 0
    page = write_runs_comparison(found, folder, shlex.join(["prvr", "compare", *argv]))
    console.print(f"wrote {page}")
    return 0


def _evaluate(runs: Sequence[Run], arguments: CompareArguments, device: torch.device | None) -> list[EvaluatedRun]:
    split, weights = arguments.split, arguments.weights
    left = [run for run in runs if not is_evaluated(run, split, weights)] if device is not None else []
    progress, found = Console(stderr=True, highlight=False, soft_wrap=True), []
    for run in runs:
        if run in left:
            text = f"ranking {split} with {run.path} ({left.index(run) + 1} of {len(left)})"
            progress.print(text, style="dim")
        each = evaluated_run(run, split=split, weights=weights, device=device)
        if each is None:
            named = f" --weights {weights}" if weights else ""
            raise RunError(
                f"{run.path} has not been ranked on {split}: leave out --no-eval, or `prvr eval {run.path} "
                f"--split {split}{named}` first"
            )
        found.append(each)
    return found


def _costs(
    benchmarks: Sequence[Benchmark], device: torch.device | None
) -> tuple[dict[str, dict[str, RunCost]], list[str]]:
    """By benchmark and method: the cost of the first seed, where it can be measured or was kept; and what could not."""
    progress = Console(stderr=True, highlight=False, soft_wrap=True)
    costs: dict[str, dict[str, RunCost]] = {}
    notes = []
    for benchmark in benchmarks:
        for label, each in {row.label: row.runs[0] for row in benchmark.rows}.items():
            doing = partial(progress.print, f"timing {label} on {benchmark.name}", style="dim")
            try:
                cost = measure_cost(each, device, doing)
            except UserError as problem:
                cost = measure_cost(each, None)
                instead = "what was kept is shown" if cost else "its cost is left empty"
                notes.append(f"{label} was not timed on {benchmark.name} ({problem}): {instead}.")
            if cost is not None:
                costs.setdefault(benchmark.name, {})[label] = cost
    return costs, notes


def _reference(benchmarks: Sequence[Benchmark], against: str | None) -> str:
    """The name of the row that others are compared with."""
    rows = [row for benchmark in benchmarks for row in benchmark.rows]
    names = [*dict.fromkeys(row.name for row in rows)]
    if against is None:
        return next((row.name for row in rows if row.scoring == "base" and row.name != row.label), names[0])
    same = [name for name in names if name.lower() == against.lower()]
    same += [row.name for row in rows if row.scoring == "base" and row.label.lower() == against.lower()]
    place = Path(local_run(against)).resolve()
    same += [row.name for row in reversed(rows) if any(each.run.path.resolve() == place for each in row.runs)]
    if not same:
        hint = did_you_mean(against, names)
        raise RunError(f"--against {against}: no such row.{hint} There are: {'; '.join(names)}")
    return same[0]


def _remarks(benchmarks: Sequence[Benchmark], reference: str, split: str) -> list[str]:
    notes = []
    for benchmark in benchmarks:
        if benchmark.split != split:
            why = f"no {split} captions, or none were ranked before the data went away"
            notes.append(f"{benchmark.name}: these are ranks of {benchmark.split} ({why}).")
        base = benchmark.row(reference)
        if base is None:
            notes.append(f"{reference} was not ranked on {benchmark.name}: no differences there.")
            continue
        notes += [f"{benchmark.name}: {text}" for row in benchmark.rows for text in _without_effect(benchmark, row)]
        for row in benchmark.rows:
            if set(row.ranks) != set(base.ranks):
                own, other = (", ".join(map(str, sorted(each.ranks))) for each in (row, base))
                notes.append(f"{benchmark.name}: {row.name} has seeds {own}, {reference} {other}; all of each count.")
    return notes


def _without_effect(benchmark: Benchmark, row: ScoredRow) -> Iterator[str]:
    """Seeds in which TRACE changes no rank at all, with the epoch that they are of."""
    base = next((other for other in benchmark.rows if (other.label, other.scoring) == (row.label, "base")), None)
    if row.scoring == "trace" and base is not None:
        for each in row.runs:
            if torch.equal(row.ranks[each.seed], base.ranks[each.seed]):
                chosen = each.record.protocol.selection
                yield f"{row.name}, seed {each.seed} ranks exactly as its base branch (weights: {chosen})."


def _show(found: RunsComparison, console: Console) -> None:
    for table in (*found.recall_tables(), *found.change_tables(), *found.cost_tables()):
        print_table(console, report_table(table))
    runs = {each.run.path for benchmark in found.benchmarks for row in benchmark.rows for each in row.runs}
    console.print(f"{count(len(runs), 'run')}; compared with {found.reference}")
    for note in found.notes:
        console.print(f"note: {note}", style="yellow")
