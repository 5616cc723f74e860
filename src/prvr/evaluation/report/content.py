"""What a report is made of: sections of tables, figures and verdicts. How it is shown is decided elsewhere."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from prvr.evaluation.significance import Estimate, signed
from prvr.scoring import CUTOFFS, Recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Spread:
    """A mean over seeds and their standard deviation, which one seed does not have."""

    mean: float
    sd: float | None


Cell: TypeAlias = str | int | float | Spread | None


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
        if isinstance(cell, Spread):
            return self.show(cell.mean) + ("" if cell.sd is None else f" ± {cell.sd:.{self.digits}f}")
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
    best: Collection[tuple[int, int]] = ()  # (row, column) of cells that are highlighted
    soft: Collection[int] = ()  # rows that are not one's own: published numbers

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
        """Unrounded; a column with deviations is two columns."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        spread = [any(isinstance(row[place], Spread) for row in self.rows) for place in range(len(self.columns))]
        titles = [column.title for column in self.columns]
        writer.writerow(
            _flat([title, f"{title} sd"] if two else [title] for title, two in zip(titles, spread, strict=True))
        )
        for row in self.rows:
            writer.writerow(_flat(_plain(cell, two) for cell, two in zip(row, spread, strict=True)))
        return out.getvalue()

    def markdown(self) -> str:
        """A table of a Markdown document, under its title."""
        cells = [
            [
                f"**{cell}**" if (row, place) in self.best else cell.replace("|", "\\|")
                for place, cell in enumerate(line)
            ]
            for row, line in enumerate(self.shown())
        ]
        rule = ["---" if self.is_text(place) else "--:" for place in range(len(self.columns))]
        lines = [[column.title for column in self.columns], rule, *cells]
        drawn = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([f"**{self.title}**", "", *drawn, *(["", self.note] if self.note else []), ""])

    def latex(self) -> str:
        """A booktabs table; compile with inputenc utf8, or LuaLaTeX."""
        kinds = "".join("l" if self.is_text(i) else "r" for i in range(len(self.columns)))
        head = " & ".join(tex_text(column.title) for column in self.columns) + r" \\"
        body = [
            " & ".join(tex_cell(cell, (row, place) in self.best) for place, cell in enumerate(line)) + r" \\"
            for row, line in enumerate(self.shown())
        ]
        rule = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        note = [f"% {self.note}"] if self.note else []
        caption = rf"\caption{{{tex_text(self.title)}}}"
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


def _plain(cell: Cell, two: bool) -> list[object]:
    """A cell of a CSV file, with its deviation where the column has one."""
    if isinstance(cell, Spread):
        return [cell.mean, "" if cell.sd is None else cell.sd]
    return ["" if cell is None else cell, *([""] if two else [])]


def _flat(parts: Iterable[Sequence[object]]) -> list[object]:
    return [cell for part in parts for cell in part]


def _is_number_like(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "+−–["


def tex_cell(text: str, best: bool = False) -> str:
    return rf"\textbf{{{tex_text(text)}}}" if best else tex_text(text)


def tex_text(text: str) -> str:
    known = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "−": "$-$", "→": r"$\to$", "↑": r"$\uparrow$"}
    known |= {"↓": r"$\downarrow$", "Δ": r"$\Delta$", "λ": r"$\lambda$", "γ": r"$\gamma$", "η": r"$\eta$"}
    known |= {"d̃": r"$\tilde d$", "≥": r"$\ge$", "×": r"$\times$", "±": r"$\pm$", "–": "--", "·": r"$\cdot$"}
    known |= {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(known.get(letter, letter) for letter in text.replace("d̃", "\0")).replace("\0", known["d̃"])
