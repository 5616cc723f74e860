"""The page of mistakes: one HTML file that needs nothing else, in the style of the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from prvr.data import Dataset
from prvr.evaluation.curve_moments import known_times
from prvr.evaluation.figures import (
    DIRECT,
    MOMENT,
    ROUTED,
    SUPPORT,
    blank_figure,
    draw_evidence,
    set_limits,
)
from prvr.evaluation.mistakes.choose import KINDS, Mistake, RankedQueries
from prvr.evaluation.mistakes.words import mistake_words
from prvr.evaluation.pair_account import PairAccount
from prvr.evaluation.report.page import inline_figure, whole_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CSS = """
article { margin: 1.6rem 0; padding: .2rem 0 .6rem; border-top: 1px dashed var(--line); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: .2rem 1rem; }
.pair figure { margin: .4rem 0; }
.index { columns: 2 22rem; column-gap: 2.6rem; font-size: .88rem; padding-left: 1.6rem; }
.index li { break-inside: avoid; margin: .12rem 0; } .ranks { font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .85rem; color: var(--soft); }
.legend i { display: inline-block; width: 1.3rem; height: .3rem; margin-right: .35rem; vertical-align: middle; }
"""
_WIDTH, _HEIGHT = 4.7, 2.45  # inches of one video's curves


@dataclass(frozen=True)
class ShownMistake:
    """A mistake with the evidence of its two videos; None for a method without curves."""

    mistake: Mistake
    truth: PairAccount | None
    other: PairAccount | None


def mistakes_page(
    title: str,
    about: Mapping[str, str],
    dataset: Dataset,
    found: RankedQueries,
    shown: Sequence[ShownMistake],
    explain: Sequence[str],
) -> str:
    """The whole page. ``explain`` are the words of a command to which ``--query`` and ``--video`` can be added."""
    numbered = list(enumerate(shown, start=1))
    body = [_introduction(found, shown), _index(dataset, numbered)]
    for kind, entries in groupby(numbered, key=lambda entry: entry[1].mistake.kind):
        parts = [f"<h2>{escape(kind.title)}</h2>", f'<p class="lead">{escape(kind.rule)}</p>']
        parts += [_entry(number, entry, dataset, found, explain) for number, entry in entries]
        body.append(f'<section id="{kind.key}">{"".join(parts)}</section>')
    links = {kind.key: kind.title for kind in KINDS if any(s.mistake.kind is kind for s in shown)}
    return whole_page(title, about, links, "\n".join(body), css=_CSS)


def _introduction(found: RankedQueries, shown: Sequence[ShownMistake]) -> str:
    wrong, queries = int(found.wrong.sum()), len(found.wrong)
    text = f"The first answer is wrong for {wrong:,} of {queries:,} queries. Shown are {len(shown)}, chosen by rule: "
    text += "each kind below orders its queries as it says, and the kinds take turns; no query is shown twice."
    if not found.with_trace:
        text += " This run has no TRACE, so there are no rank changes and no support to show."
    if not shown:
        text = "The labelled video is first for every query: there is nothing to show."
    names = {DIRECT: "direct evidence" if found.with_trace else "cosine of query and frame"}
    if found.with_trace:
        names |= {SUPPORT: "register support", ROUTED: "routed evidence"}
    names |= {MOMENT: "annotated moment"}
    chips = "".join(f'<span><i style="background:{colour}"></i>{name}</span>' for colour, name in names.items())
    marks = "<span>▼ best frame</span>" + ("<span>★ best frame by TRACE</span>" if found.with_trace else "")
    return f'<p class="lead">{escape(text)}</p>' + (f'<p class="legend">{chips}{marks}</p>' if shown else "")


def _index(dataset: Dataset, numbered: Sequence[tuple[int, ShownMistake]]) -> str:
    items = [
        f'<li><a href="#m{number}">{escape(dataset.captions[entry.mistake.query].sentence)}</a></li>'
        for number, entry in numbered
    ]
    return f'<ol class="index">{"".join(items)}</ol>' if items else ""


def _entry(number: int, entry: ShownMistake, dataset: Dataset, found: RankedQueries, explain: Sequence[str]) -> str:
    mistake = entry.mistake
    caption, query = dataset.captions[mistake.query], mistake.query
    right, other = dataset.video_ids[mistake.truth], dataset.video_ids[mistake.other]
    before, after = int(found.base_ranks[query]), int(found.final_ranks[query])
    rank = f"rank {before} → {after} with TRACE" if before != after else f"rank {after}"
    role = "The base's first answer" if mistake.kind.key == "lifted" else "First answer"
    also = " (correct too)" if mistake.other in found.positives[query] and mistake.other != mistake.truth else ""
    text = mistake_words(mistake, found, dataset, entry.truth, entry.other)
    parts = [
        f"<h3>{number}. “{escape(caption.sentence)}”</h3><p>{escape(text)}</p>",
        f'<p class="ranks note">Right video: {escape(right)}, {rank}. {role}: {escape(other)}{also}.</p>',
    ]
    if entry.truth is not None and entry.other is not None:
        roles = {"Right video": entry.truth, role.removeprefix("The base's ").capitalize(): entry.other}
        drawn = _figures(dataset, mistake, roles)
        figures = [f"<figure>{inline_figure(figure, f'm{number}-{n}')}</figure>" for n, figure in enumerate(drawn)]
        parts.append(f'<div class="pair">{"".join(figures)}</div>')
    command = shlex.join([*explain, "--query", caption.id, "--video", other])
    parts.append(f'<p class="from">More: <code>{escape(command)}</code></p>')
    return f'<article id="m{number}">{"".join(parts)}</article>'


def _figures(dataset: Dataset, mistake: Mistake, roles: Mapping[str, PairAccount]) -> list[Figure]:
    """One figure per video, on one scale."""
    times = [known_times(dataset, mistake.query, video) for video in (mistake.truth, mistake.other)]
    in_seconds = all(length is not None for length, _ in times)
    drawn = []
    for (role, account), (length, windows) in zip(roles.items(), times, strict=True):
        with blank_figure(_WIDTH, _HEIGHT) as figure:
            axes = figure.add_axes((0.145, 0.19, 0.84, 0.7))
            if account.curves is None:
                values = [value for other in roles.values() for value in other.curve]
                axes.set_ylim(min(values) - 0.02, max(values) + 0.06)
                end = length if in_seconds and length is not None else float(len(account.curve))
                _draw_cosines(axes, account, role, end, windows if in_seconds else ())
            else:
                set_limits(axes, in_seconds, *(other.curves for other in roles.values() if other.curves is not None))
                axes.set_xlim(0, account.curves.end(in_seconds))
                draw_evidence(axes, account.curves, role, in_seconds, brief=True)
            axes.set_xlabel("time (s)" if in_seconds else "frame")
        drawn.append(figure)
    return drawn


def _draw_cosines(
    axes: Axes, account: PairAccount, role: str, end: float, windows: Sequence[tuple[float, float]]
) -> None:
    """The curve of a run without TRACE, its peak, and the annotated moment; ``end`` is the last time on the axis."""
    times = (np.arange(len(account.curve)) + 0.5) * end / len(account.curve)
    peak = int(np.argmax(account.curve))
    axes.plot(times, account.curve, color=DIRECT, linewidth=1.8)
    axes.plot(times[peak], account.curve[peak], "v", color=DIRECT, markersize=9, markeredgecolor="white")
    for window in windows:
        axes.axvspan(*window, color=MOMENT, alpha=0.28, linewidth=0, zorder=0.5)
    axes.set_title(f"{role} · {account.video_id}", loc="left", fontsize=9.5, fontweight="bold", pad=5, parse_math=False)
    axes.set(ylabel="cos(q, frame)", xlim=(0, end))
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.6)
