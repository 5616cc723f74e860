"""``prvr explain``: why one query gets its score for one video, or a page of a run's mistakes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from prvr.cli.hub_runs import RunPath
from prvr.evaluation import (
    PairAccount,
    Subject,
    cosine_figure,
    evidence_figure,
    find_query,
    find_video,
    open_subject,
    pair_account,
    save_figure,
    terminal_chart,
    word_figure,
    write_mistakes,
)
from prvr.terminal import Console
from prvr.training import Run, RunError, choose_device


@dataclass(frozen=True)
class ExplainArguments:
    """Show the evidence of a query in a video, frame by frame: direct, supported by registers, and routed.

    `prvr explain RUN --errors 20` writes one page with the most instructive mistakes of a split, chosen by rule.

    `prvr explain RUN --query "opens a red door" --video test00012` draws a chart in the terminal and saves a figure
    (PNG and SVG) under RUN/explain. The query is one of the split: its id, or words that only it contains.
    """

    run: Annotated[tyro.conf.Positional[RunPath], tyro.conf.arg(metavar="RUN")]
    """folder of a run"""
    query: str | None = None
    """id of a query, or (part of) its sentence"""
    errors: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """instead of one query: the N most instructive mistakes on one page (rank changes, unsupported peaks, several
    correct videos, near misses), at most 100"""
    video: str | None = None
    """id of a video [default: the query's own]"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="STEM")] = None
    """path of the figure or page without its suffix [default: RUN/explain/QUERY-VIDEO, RUN/explain/errors-SPLIT]"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset, also another one with features of the same widths [default: the one the run was
    trained on]"""
    split: str = "test"
    """split that query and video belong to"""
    weights: str | None = None
    """which weights: average, best, last or backbone [default: the run's selection]"""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """file with all correct videos of each query: a *.gt.jsonl, plain, gzipped or in a .zip"""
    width: int = 64
    """columns of the chart"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""


def explain_command(argv: list[str]) -> int:
    arguments = tyro.cli(ExplainArguments, prog="prvr explain", args=argv)
    if (arguments.query is None) == (arguments.errors is None):
        raise RunError("give either --query WORDS, for one pair, or --errors N, for a page of mistakes")
    if arguments.errors is not None and arguments.video is not None:
        raise RunError("--video belongs to --query: --errors chooses the videos itself")
    subject = open_subject(
        Run(arguments.run),
        data=arguments.data,
        split=arguments.split,
        weights=arguments.weights,
        device=choose_device(arguments.device),
        labels=arguments.labels,
    )
    if arguments.errors is not None:
        return _errors(arguments, arguments.errors, subject)
    return _one_pair(arguments, f"{arguments.query}", subject)


def _errors(arguments: ExplainArguments, count: int, subject: Subject) -> int:
    page = Path(f"{arguments.out or subject.run.path / 'explain' / f'errors-{subject.name}'}.html")
    flags: list[str] = []
    given = {"--data": arguments.data, "--weights": arguments.weights, "--labels": arguments.labels}
    for flag, value in given.items():
        flags += [] if value is None else [flag, str(value)]
    flags += [] if arguments.split == "test" else ["--split", arguments.split]
    with Console(stderr=True).status(f"ranking {subject.dataset.split} and drawing"):
        written = write_mistakes(subject, count, page, flags=flags)
    kinds = Counter(mistake.kind.title for mistake in written.mistakes)
    console = Console()
    share = f"the first answer is wrong for {written.wrong:,} of {written.queries:,} queries"
    console.print(Text(f"{subject.ranked}: {share}"), soft_wrap=True)
    for title, number in kinds.items():
        console.print(Text(f"{number:>4}  {title}"), soft_wrap=True)
    console.print(Text(f"wrote {written.page}"), soft_wrap=True)
    return 0


def _one_pair(arguments: ExplainArguments, query: str, subject: Subject) -> int:
    run = subject.run
    row = find_query(subject.dataset, query)
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
