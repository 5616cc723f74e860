"""Recall tables: rows of a name and its recalls, as a terminal table, plain text, Markdown or CSV.

>>> import torch
>>> print(recall_table({"base": torch.tensor([1, 3, 30]), "trace": torch.tensor([1, 1, 20])}))
        R@1   R@5  R@10  R@100   SumR
base   33.3  66.7  66.7  100.0  266.7
trace  66.7  66.7  66.7  100.0  300.0
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

from prvr.scoring import Recall, recalls

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class RecallSummary:
    """Recalls of one or several runs: their mean and, from two runs on, the sample standard deviation."""

    mean: Recall
    sd: dict[str, float] | None  # by the names of ``Recall.as_dict``; SumR has its own, it is not the sum of the others
    runs: int


Row: TypeAlias = Tensor | Recall | RecallSummary | Sequence[Recall]


def summarise(runs: Sequence[Recall]) -> RecallSummary:
    """Mean ± sample standard deviation over seeds; one seed has no deviation.

    >>> import torch
    >>> summary = summarise([recalls(torch.tensor([1, 9])), recalls(torch.tensor([1, 1]))])
    >>> summary.mean.r1, round(summary.sd["r1"], 2)
    (75.0, 35.36)
    """
    if not runs:
        raise ValueError("no runs to summarise; expected at least one Recall")
    shapes = {(run.cutoffs, run.count) for run in runs}
    if len(shapes) > 1:
        found = "; ".join(f"{count} queries at {cutoffs}" for cutoffs, count in sorted(shapes))
        raise ValueError(f"runs differ in queries or cut-offs ({found}); expected seeds of one evaluation split")
    mean = Recall(tuple((k, fmean(run[k] for run in runs)) for k in runs[0].cutoffs), runs[0].count)
    if len(runs) == 1:
        return RecallSummary(mean, None, 1)
    named = [run.as_dict() for run in runs]
    sd = {name: stdev(run[name] for run in named) for name in named[0] if name != "count"}
    return RecallSummary(mean, sd, len(runs))


@dataclass(frozen=True)
class RecallTable:
    """Named rows with the same cut-offs. ``print`` shows plain text; a rich console shows a rich table."""

    rows: tuple[tuple[str, RecallSummary], ...]
    note: str = ""  # printed beneath: how the numbers were selected, say

    @property
    def header(self) -> list[str]:
        return [*(f"R@{k}" for k in self.rows[0][1].mean.cutoffs), "SumR"]

    def cells(self, digits: int = 1) -> list[list[str]]:
        """One line of formatted cells per row, the name first."""
        return [[name, *(_cell(summary, column, digits) for column in self._columns)] for name, summary in self.rows]

    def text(self, digits: int = 1) -> str:
        lines = [["", *self.header], *self.cells(digits)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        drawn = [
            "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
            for line in lines
        ]
        return "\n".join([*drawn, *([self.note] if self.note else [])])

    def markdown(self, digits: int = 1) -> str:
        """A table with the best value of each column in bold."""
        body = [
            [line[0].replace("|", "\\|"), *(f"**{c}**" if best else c for c, best in zip(line[1:], bold, strict=True))]
            for line, bold in zip(self.cells(digits), self._best(digits), strict=True)
        ]
        lines = [["", *self.header], ["---", *("--:" for _ in self.header)], *body]
        drawn = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([*drawn, *(["", self.note] if self.note else [])])

    def csv(self) -> str:
        """Unrounded numbers, for other programs; deviations are empty where there was one run."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["name", *self._columns, *(f"{column}_sd" for column in self._columns), "queries", "runs"])
        for name, summary in self.rows:
            mean, sd = summary.mean.as_dict(), summary.sd or {}
            numbers = [*(mean[c] for c in self._columns), *(sd.get(c, "") for c in self._columns)]
            writer.writerow([name, *numbers, summary.mean.count, summary.runs])
        return out.getvalue()

    def rich(self, digits: int = 1) -> Table:
        """A table for ``rich.print``, the best value of each column in bold."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, caption=Text(self.note) if self.note else None, caption_justify="left")
        table.add_column("")
        for title in self.header:
            table.add_column(title, justify="right", no_wrap=True)
        for line, bold in zip(self.cells(digits), self._best(digits), strict=True):
            styles = ["", *("bold" if best else "" for best in bold)]
            table.add_row(*(Text(cell, style=style) for cell, style in zip(line, styles, strict=True)))
        return table

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Table:
        return self.rich()

    @property
    def _columns(self) -> list[str]:
        return [name for name in self.rows[0][1].mean.as_dict() if name != "count"]

    def _best(self, digits: int) -> list[list[bool]]:
        """Per row and column, whether no other row reads higher (as printed: what looks equal is equal)."""
        if len(self.rows) == 1:
            return [[False] * len(self._columns)]
        shown = [[round(s.mean.as_dict()[column], digits) for column in self._columns] for _, s in self.rows]
        top = [max(column) for column in zip(*shown, strict=True)]
        return [[value == best for value, best in zip(line, top, strict=True)] for line in shown]


def recall_table(rows: Mapping[str, Row], *, note: str = "") -> RecallTable:
    """A table from named rows.

    Args:
        rows: by name, one of: 1-based ranks (Q,), a ``Recall``, a ``RecallSummary``, or the ``Recall`` of each seed.
        note: a line printed beneath, such as the protocol.
    """
    if not rows:
        raise ValueError("a recall table without rows; expected at least one name with its ranks or recalls")
    table = RecallTable(tuple((name, _summary(row)) for name, row in rows.items()), note)
    cutoffs = {summary.mean.cutoffs for _, summary in table.rows}
    if len(cutoffs) > 1:
        raise ValueError(f"rows have different cut-offs {sorted(cutoffs)}; expected the same ks in every row")
    return table


def _summary(row: Row) -> RecallSummary:
    if isinstance(row, RecallSummary):
        return row
    if isinstance(row, Tensor):
        row = recalls(row)
    return summarise([row] if isinstance(row, Recall) else row)


def _cell(summary: RecallSummary, column: str, digits: int) -> str:
    mean = f"{summary.mean.as_dict()[column]:.{digits}f}"
    return mean if summary.sd is None else f"{mean} ± {summary.sd[column]:.{digits}f}"
