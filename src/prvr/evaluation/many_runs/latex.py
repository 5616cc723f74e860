"""Table 1 in the paper's layout: methods as rows, the recalls of every dataset side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prvr.evaluation.many_runs.benchmarks import Benchmark
from prvr.evaluation.many_runs.tables import PublishedRows, best_cells, published_rows, recall_rows
from prvr.evaluation.published import published_caveat
from prvr.evaluation.report.content import RECALL_COLUMNS, Cell, tex_cell, tex_text

_WIDTH = len(RECALL_COLUMNS)


def wide_table(benchmarks: Sequence[Benchmark], which: PublishedRows) -> str:
    """A booktabs table; the best mean of each column is bold, published rows stand below a rule."""
    own = [*dict.fromkeys(row.name for benchmark in benchmarks for row in benchmark.rows)]
    printed = [published_rows(benchmark, which) for benchmark in benchmarks]
    published = [*dict.fromkeys(method for rows in printed for method in rows)]
    lines = []
    for name in own:
        cells: list[str] = []
        for benchmark in benchmarks:
            best = best_cells([recall_rows(row) for row in benchmark.rows])
            places = [row.name for row in benchmark.rows]
            found = benchmark.row(name)
            number = places.index(name) if name in places else -1
            cells += _cells(recall_rows(found) if found else [None] * _WIDTH, {at for row, at in best if row == number})
        lines.append(_line([tex_text(name), *cells]))
    below = []
    for method in published:
        parts = [_cells(rows.get(method, [None] * _WIDTH)) for rows in printed]
        below.append(_line([tex_text(f"{method} (published)"), *(cell for part in parts for cell in part)]))
    kinds = "l" + "|".join("r" * _WIDTH for _ in benchmarks)
    names = [rf"\multicolumn{{{_WIDTH}}}{{c}}{{{tex_text(benchmark.name)}}}" for benchmark in benchmarks]
    titles = [tex_text(column.title) for column in RECALL_COLUMNS] * len(benchmarks)
    caveats = [*dict.fromkeys(published_caveat(benchmark.feature) for benchmark in benchmarks)] if below else []
    caption = "Retrieval performance (%), mean ± standard deviation over seeds; the best mean is bold."
    caption = " ".join([caption, *(f"{caveat[:1].upper()}{caveat[1:]}." for caveat in caveats)])
    body = [r"\toprule", _line(["", *names]), _line(["Method", *titles]), r"\midrule", *lines]
    body += [r"\midrule", *below, r"\bottomrule"] if below else [r"\bottomrule"]
    inside = [r"\centering", r"\small", r"\setlength{\tabcolsep}{3pt}", rf"\begin{{tabular}}{{{kinds}}}"]
    inside += [*body, r"\end{tabular}", rf"\caption{{{tex_text(caption)}}}"]
    return "\n".join([r"\begin{table*}[t]", *inside, r"\end{table*}", ""])


def _cells(cells: Sequence[Cell], best: Collection[int] = ()) -> list[str]:
    return [tex_cell(RECALL_COLUMNS[at].show(cell), at in best) for at, cell in enumerate(cells)]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
