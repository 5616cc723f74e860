"""What a report is made of: sections of tables, figures and verdicts. How it is shown is decided elsewhere."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from prvr.evaluation.significance import Estimate, signed
from prvr.scoring import CUTOFFS, Recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column of numbers or words; ``digits`` is how many decimals a reader needs."""

    title: str
    digits: int = 1
    with_sign: bool = False

    def show(self, cell: Cell) -> str:
        """A cell as it is printed; a missing one is a dash."""
        if cell is None:
            return "–"
        if isinstance(cell, str):
            return cell
        if isinstance(cell, int):
            return f"{cell:,}"
        text = signed(cell, self.digits) if self.with_sign else f"{cell:.{self.digits}f}"
        return text.replace("-", "−")


@dataclass(frozen=True)
class ReportTable:
    """Named rows of cells. CSV keeps the numbers unrounded, LaTeX and the page round them."""

    name: str  # also of its files
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    strong: Sequence[int] = ()  # rows that are highlighted

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"table '{self.name}' has {len(self.columns)} columns but a row {wrong[0]}")

    def shown(self) -> list[list[str]]:
        return [[column.show(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def is_text(self, column: int) -> bool:
        """Whether a column holds words, which are set flush left."""
        return any(isinstance(row[column], str) and not _is_number_like(str(row[column])) for row in self.rows)

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.title for column in self.columns])
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return out.getvalue()

    def latex(self) -> str:
        """A booktabs table; compile with inputenc utf8, or LuaLaTeX."""
        kinds = "".join("l" if self.is_text(i) else "r" for i in range(len(self.columns)))
        lines = [[column.title for column in self.columns], *self.shown()]
        head, *body = [" & ".join(map(_tex, line)) + r" \\" for line in lines]
        rule = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        note = [f"% {self.note}"] if self.note else []
        caption = rf"\caption{{{_tex(self.title)}}}"
        inside = [r"\centering", rf"\begin{{tabular}}{{{kinds}}}", *rule, r"\end{tabular}", caption]
        return "\n".join([r"\begin{table}", *note, *inside, r"\end{table}", ""])


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Verdict:
    """Whether an expectation was met: True, False, or None if the data does not decide it."""

    holds: bool | None
    text: str

    @staticmethod
    def of(holds: bool | None, text: str) -> Verdict:
        """A verdict whose text may hold numbers with hyphens for minus signs."""
        return Verdict(holds, re.sub(r"-(?=\d)", "−", text))


@dataclass(frozen=True)
class ReportSection:
    """One question of the report. ``absent`` says why it cannot be answered for this run."""

    key: str
    title: str
    lead: str = ""
    tables: Sequence[ReportTable] = ()
    drawings: Sequence[Drawing] = ()
    verdicts: Sequence[Verdict] = ()
    absent: str = ""


RECALL_COLUMNS = (*(Column(f"R@{k}") for k in CUTOFFS), Column("SumR"))


def recall_cells(recall: Recall) -> list[Cell]:
    return [*(percent for _, percent in recall.at), recall.sum_r]


def interval(estimate: Estimate) -> str:
    """``[+0.10, +0.92]``, with true minus signs."""
    return f"[{signed(estimate.low)}, {signed(estimate.high)}]".replace("-", "−")


def without_trace(key: str, title: str) -> ReportSection:
    """A section that this run cannot fill."""
    return ReportSection(
        key,
        title,
        absent="This run has no TRACE (its method has no registers, or it was trained without the TRACE phase). "
        "For TRACE on its frozen tokens: prvr transfer RUN.",
    )


def _is_number_like(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "+−–["


def _tex(text: str) -> str:
    known = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "−": "$-$", "→": r"$\to$", "↑": r"$\uparrow$"}
    known |= {"↓": r"$\downarrow$", "Δ": r"$\Delta$", "λ": r"$\lambda$", "γ": r"$\gamma$", "η": r"$\eta$"}
    known |= {"d̃": r"$\tilde d$", "≥": r"$\ge$", "×": r"$\times$", "±": r"$\pm$", "–": "--", "·": r"$\cdot$"}
    known |= {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(known.get(letter, letter) for letter in text.replace("d̃", "\0")).replace("\0", known["d̃"])
