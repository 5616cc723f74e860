"""The page: one HTML file that needs nothing else, in light and dark, and on paper."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from prvr.evaluation.figures import STYLE
from prvr.evaluation.report.content import Drawing, ReportSection, ReportTable, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSS = (files("prvr") / "evaluation" / "report" / "page.css").read_text("utf-8")
THEMED = {  # colours of the house style -> the page's variables, so that a drawing follows the theme
    "#333333": "--ink",
    "#555555": "--soft",
    "#666666": "--soft",
    "#888888": "--axis",
    "#e6e6e6": "--grid",
    "#f4f4f4": "--veil",
    "#ffffff": "--paper",
}
MARKS = {True: ("yes", "holds"), False: ("no", "fails"), None: ("open", "open")}


def page(title: str, about: Mapping[str, str], sections: Sequence[ReportSection], commands: Mapping[str, str]) -> str:
    """The whole page. ``commands``: by section, the command that makes its numbers again."""
    body = "\n".join(_section(section, commands[section.key]) for section in sections)
    return whole_page(title, about, {section.key: section.title for section in sections}, body)


def whole_page(title: str, about: Mapping[str, str], links: Mapping[str, str], body: str, *, css: str = "") -> str:
    """An HTML page in the report's style. ``links``: titles of the page's sections by their ids."""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in about.items())
    listed = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name in links.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}{css}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f"<dl>{facts}</dl></header>\n<nav><ul>{listed}</ul></nav>\n<main>\n{body}\n</main></body></html>\n"
    )


def _section(section: ReportSection, command: str) -> str:
    inner = [f"<h2>{escape(section.title)}</h2>"]
    if section.absent:
        inner.append(f'<p class="absent">{escape(section.absent)}</p>')
    if section.lead:
        inner.append(f'<p class="lead">{escape(section.lead)}</p>')
    if section.verdicts:
        inner.append(f'<ul class="verdicts">{"".join(map(_verdict, section.verdicts))}</ul>')
    inner += [_drawing(drawing) for drawing in section.drawings]
    inner += [_table(table) for table in section.tables]
    inner.append(f'<p class="from">Made by <code>{escape(command)}</code></p>')
    return f'<section id="{section.key}">' + "\n".join(inner) + "</section>"


def _verdict(verdict: Verdict) -> str:
    kind, word = MARKS[verdict.holds]
    return f'<li class="{kind}"><b>{word}</b>{escape(verdict.text)}</li>'


def _table(table: ReportTable) -> str:
    text = [table.is_text(column) for column in range(len(table.columns))]
    head = "".join(
        f"<th{_kind(words)}>{escape(column.title)}</th>" for column, words in zip(table.columns, text, strict=True)
    )
    lines = []
    for number, row in enumerate(table.shown()):
        cells = "".join(
            f"<td{_kind(words, len(cell) > 34)}>{_marked(cell, (number, place) in table.best)}</td>"
            for place, (cell, words) in enumerate(zip(row, text, strict=True))
        )
        kind = "strong" if number in table.strong else "soft" if number in table.soft else ""
        lines.append(f"<tr{f' class={kind}' if kind else ''}>{cells}</tr>")
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    files = f'<p class="from">tables/{table.name}.csv · tables/{table.name}.tex</p>'
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>{note}{files}"
    )


def _marked(cell: str, best: bool) -> str:
    return f"<b>{escape(cell)}</b>" if best else escape(cell)


def _kind(words: bool, long: bool = False) -> str:
    return f' class="text{" long" if long else ""}"' if words else ""


def _drawing(drawing: Drawing) -> str:
    return (
        f'<figure role="img" aria-label="{escape(drawing.caption, quote=True)}">'
        f"{inline_figure(drawing.figure, drawing.name)}"
        f'<figcaption>{escape(drawing.caption)} <span class="from">figures/{drawing.name}.png · .svg</span>'
        "</figcaption></figure>"
    )


def inline_figure(figure: Figure, name: str) -> str:
    """A figure as SVG inside the page, its greys bound to the page's colours, its ids its own."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in THEMED.items():
        svg = re.sub(rf"(fill|stroke): {colour}", rf"\1: var({variable})", svg, flags=re.IGNORECASE)
    # Text without a colour is black; on the page it takes the text colour.
    width = f"max-width: {figure.get_size_inches()[0]:.1f}in"
    svg = svg.replace("<svg ", f'<svg style="fill: var(--ink); {width}" ', 1)
    svg = re.sub(r'(id="|href="#|url\(#)', lambda found: f"{found[1]}{name}-", svg)
    return svg
