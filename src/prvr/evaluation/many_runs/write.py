"""A comparison of many runs as files: page, CSV, LaTeX, Markdown, and the ranks of every query side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prvr.evaluation.many_runs.benchmarks import Benchmark
from prvr.evaluation.many_runs.changes import MethodChange
from prvr.evaluation.many_runs.cost import RunCost
from prvr.evaluation.many_runs.forest import forest_figure
from prvr.evaluation.many_runs.latex import wide_table
from prvr.evaluation.many_runs.tables import (
    PublishedRows,
    change_table,
    cost_table,
    recall_table_of,
    runs_table,
    slug,
)
from prvr.evaluation.records import write_columns
from prvr.evaluation.report.content import Drawing, ReportSection, ReportTable
from prvr.evaluation.report.files import write_sections
from prvr.evaluation.report.page import page
from prvr.evaluation.significance import DRAWS, SEED
from prvr.files import write_whole

_ALL = "all datasets"


@dataclass(frozen=True)
class RunsComparison:
    """Everything that the tables show."""

    benchmarks: Sequence[Benchmark]
    reference: str  # the row that others are compared with
    changes: Mapping[str, Sequence[MethodChange]]  # by benchmark
    pooled: Sequence[MethodChange]  # over all benchmarks
    costs: Mapping[str, Mapping[str, RunCost]]  # by benchmark and label of a method
    published: PublishedRows
    notes: Sequence[str] = ()

    def recall_tables(self) -> list[ReportTable]:
        return [recall_table_of(benchmark, self.published) for benchmark in self.benchmarks]

    def change_tables(self) -> list[ReportTable]:
        found = [
            change_table(name, f"Difference on {name}", changes, self.reference)
            for name, changes in self.changes.items()
        ]
        if self.pooled:
            title = f"Difference, mean of {len(self.changes)} datasets"
            found.append(change_table(_ALL, title, self.pooled, self.reference))
        return found

    def cost_tables(self) -> list[ReportTable]:
        return [
            cost_table(benchmark, self.costs.get(benchmark.name, {}), self.published) for benchmark in self.benchmarks
        ]

    def sections(self, *, drawn: bool = True) -> list[ReportSection]:
        """The parts of the page; without figures where they are not ``drawn``."""
        about = (
            f"Paired by query against {self.reference}. What a query meets is averaged over the seeds of each row, so "
            f"ΔSumR is the difference of the means above. {DRAWS:,} samples draw whole videos with all their queries, "
            f"percentiles 2.5 and 97.5; p: one-sided sign flip of whole videos (is the row better?), and corrected by "
            f"Holm for the rows of a table; seed {SEED}. Where datasets are averaged, a video that several of them "
            "share is drawn in all of these at once. The trainings are taken as they are: the deviation between seeds "
            "is not part of the interval."
        )
        changes = [*self.changes.items(), *([(_ALL, self.pooled)] if self.pooled else [])]
        drawings = [
            Drawing(f"differences-{slug(name)}", f"ΔSumR on {name} and its 95 % interval.", forest_figure(found))
            for name, found in changes
            if drawn
        ]
        absent = "" if changes else f"Nothing was ranked on the same queries as {self.reference}."
        recall = "A rank is 1 + videos scored strictly higher + equal ones earlier in the gallery. Bold: best mean."
        return [
            ReportSection("recalls", "Retrieval (Table 1)", recall, self.recall_tables()),
            ReportSection("differences", "Paired differences", about, self.change_tables(), drawings, absent=absent),
            ReportSection("cost", "Cost (Table 2)", tables=self.cost_tables()),
            ReportSection("runs", "Runs", tables=[runs_table(self.benchmarks)]),
        ]


def write_runs_comparison(found: RunsComparison, folder: Path, command: str) -> Path:
    """Write everything into a folder; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = found.sections()
    write_sections(sections, folder)
    write_whole(folder / "tables" / "table1.tex", wide_table(found.benchmarks, found.published))
    write_whole(folder / "tables" / "tests.csv", _tests(found))
    methods = [*dict.fromkeys(row.label for benchmark in found.benchmarks for row in benchmark.rows)]
    title = f"{', '.join(methods)} on {', '.join(benchmark.name for benchmark in found.benchmarks)}"
    about = {"compared with": found.reference, "made by": command}
    about |= {"notes": " ".join(found.notes)} if found.notes else {}
    about["files"] = "tables/: CSV and LaTeX; tables/table1.tex: the paper's layout; comparison.md; ranks/: every query"
    write_whole(folder / "comparison.md", _markdown(title, about, sections))
    (folder / "ranks").mkdir(exist_ok=True)
    for benchmark in found.benchmarks:
        columns: dict[str, Sequence[object]] = {"query_id": benchmark.query_ids, "video_id": benchmark.video_ids}
        for row in benchmark.rows:
            columns |= {f"{row.name}, seed {seed}": ranks.tolist() for seed, ranks in row.ranks.items()}
        write_columns(folder / "ranks" / f"{slug(benchmark.name)}.csv", columns)
    place = folder / "comparison.html"
    write_whole(place, page(title, about, sections, {section.key: command for section in sections}))
    return place


def _markdown(title: str, about: Mapping[str, str], sections: Sequence[ReportSection]) -> str:
    parts = [f"# {title}", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    for section in sections:
        parts += [f"## {section.title}", ""]
        parts += [text for text in (section.lead, section.absent) if text]
        parts += ["", *(table.markdown() for table in section.tables)]
    return "\n".join(parts)


def _tests(found: RunsComparison) -> str:
    """Every difference with its interval, one a line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    titles = ("dataset", "method", "against", "of", "difference", "low", "high", "p", "seeds", "seeds against")
    writer.writerow(titles)
    for name, changes in [*found.changes.items(), (_ALL, found.pooled)]:
        for change in changes:
            for what, e in [("SumR", change.sum_r), *((f"R@{k}", at) for k, at in change.at.items())]:
                numbers = [e.delta, e.low, e.high, e.p, *change.seeds]
                writer.writerow([name, change.row, found.reference, what, *numbers])
    return out.getvalue()
