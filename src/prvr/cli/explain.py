"""``prvr explain``: why one query gets its score for one video."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from prvr.evaluation import (
    PairAccount,
    cosine_figure,
    evidence_figure,
    find_query,
    find_video,
    open_subject,
    pair_account,
    save_figure,
    terminal_chart,
    word_figure,
)
from prvr.terminal import Console
from prvr.training import Run, choose_device


@dataclass(frozen=True)
class ExplainArguments:
    """Show the evidence of a query in a video, frame by frame: direct, supported by registers, and routed.

    `prvr explain RUN --query "opens a red door" --video test00012` draws a chart in the terminal and saves a figure
    (PNG and SVG) under RUN/explain. The query is one of the split: its id, or words that only it contains.
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """folder of a run"""
    query: str
    """id of a query, or (part of) its sentence"""
    video: str | None = None
    """id of a video [default: the query's own]"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="STEM")] = None
    """path of the figure without its suffix [default: RUN/explain/QUERY-VIDEO]"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset [default: the one the run was trained on]"""
    split: str = "test"
    """split that query and video belong to"""
    weights: str | None = None
    """which weights: average, best, last or backbone [default: the run's selection]"""
    width: int = 64
    """columns of the chart"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""


def explain_command(argv: list[str]) -> int:
    arguments = tyro.cli(ExplainArguments, prog="prvr explain", args=argv)
    device = choose_device(arguments.device)
    run = Run(arguments.run)
    subject = open_subject(run, data=arguments.data, split=arguments.split, weights=arguments.weights, device=device)
    row = find_query(subject.dataset, arguments.query)
    own = int(subject.dataset.query_video[row])
    found = pair_account(subject, row, own if arguments.video is None else find_video(subject.dataset, arguments.video))
    console = Console()
    console.print(Text(f"“{found.sentence}”  {found.query_id}", style="bold"), soft_wrap=True)
    role = "the video it was written for" if found.is_truth else "not the video it was written for"
    console.print(Text(f"{found.video_id}: {role}"), soft_wrap=True)
    console.print(Text("\n" + terminal_chart(_curves(found), width=max(8, arguments.width))), soft_wrap=True)
    console.print(Text("\n" + _verdict(found)), soft_wrap=True)
    if found.words:
        named = {f"{word} {found.explained[word]:.2f}": curve for word, curve in found.words.items()}
        console.print(Text("\nWhat each word sees, and how well this video explains it:"), soft_wrap=True)
        console.print(Text(terminal_chart(named, width=max(8, arguments.width))), soft_wrap=True)
    stem = arguments.out or run.path / "explain" / _file_name(f"{found.query_id}-{found.video_id}")
    if found.curves is None:
        figure = cosine_figure(found.sentence, f"score {found.base:.4f}", found.video_id, found.curve)
    else:
        figure = evidence_figure(found.sentence, _scores(found), {role.capitalize(): found.curves})
    console.print(Text(f"wrote {save_figure(figure, stem)[0]}"), soft_wrap=True)
    if found.words:
        drawn = word_figure(found.sentence, found.video_id, found.words, found.explained)
        console.print(Text(f"wrote {save_figure(drawn, f'{stem}-words')[0]}"), soft_wrap=True)
    return 0


def _curves(found: PairAccount) -> dict[str, list[float]]:
    if found.explanation is None:
        return {"cosine": found.curve}
    e = found.explanation
    curves = {"direct d": e.direct, "support ḡ": e.expected_support, "routed d+γρ": e.routed}
    return {name: values.tolist() for name, values in curves.items()}


def _verdict(found: PairAccount) -> str:
    if found.explanation is None:
        return f"score {found.base:.4f}. This run has no TRACE, so there is no register support to show."
    return f"{found.explanation}"


def _scores(found: PairAccount) -> str:
    return f"base score {found.base:.4f}     with TRACE {found.final:.4f}"


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text)
