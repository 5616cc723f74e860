"""``prvr report``: every table and figure of the paper for one run, or a comparison of two runs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.progress import Progress

from prvr.cli.hub_runs import RunPath
from prvr.cli.sections import print_section, print_verdicts
from prvr.errors import did_you_mean
from prvr.evaluation import (
    COMPARISON_SECTIONS,
    REPORT_SECTIONS,
    ReportExtras,
    WrittenReport,
    backbone_ranks,
    evaluate_run,
    open_subject,
    pair_runs,
    retrained_ranks,
    run_study,
    sentence_bank,
    write_comparison,
    write_report,
)
from prvr.terminal import Console
from prvr.training import Run, RunError, choose_device


@dataclass(frozen=True)
class ReportArguments:
    """Write one self-contained HTML page with the tables and figures of a run, and CSV, LaTeX, PNG and SVG next to it.

    `prvr report RUN` writes RUN/report/SPLIT-WEIGHTS/report.html; ranks.csv and queries.csv there hold every query's
    numbers, from which all tables can be recomputed. `prvr report A B` compares two runs query by query.
    Sections that need TRACE or registers say so if a run has none.
    """

    runs: Annotated[tyro.conf.Positional[tuple[RunPath, ...]], tyro.conf.arg(metavar="RUN")]
    """one run, or two to compare"""
    only: tuple[str, ...] = ()
    """only these sections, which are also printed: retrieval positives ablation corruption subsets significance
    rank-changes sensitivity efficiency registers case corrections agreement moments ratio types vcmr hubs;
    of a comparison: recalls difference changes"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder to write [default: RUN/report/SPLIT-WEIGHTS; of a comparison RUN_B/report/against-RUN_A]"""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the dataset, also another one with features of the same widths [default: the one the run was
    trained on]"""
    split: str = "test"
    """split to rank"""
    weights: str | None = None
    """which weights: average, best, last or backbone [default: the run's selection]"""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """file with all correct videos of each query: a *.gt.jsonl, plain, gzipped or in a .zip"""
    vcmr: bool = False
    """also search every query's moment in the whole corpus (the section vcmr) where a report leaves that out"""
    query_bank: bool = False
    """also rank with scores corrected for hubs by a bank of training sentences"""
    retrained: Annotated[tuple[RunPath, ...], tyro.conf.arg(metavar="RUN")] = ()
    """runs trained as ablation rows (1), (2), (4) or (7), shown next to the rows read on this run's weights"""
    videos: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """folder with the video files, named by video id: adds frames to the qualitative case"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""


def report_command(argv: list[str]) -> int:
    arguments = tyro.cli(ReportArguments, prog="prvr report", args=argv)
    if len(arguments.runs) not in (1, 2):
        raise RunError(f"give one run, or two to compare: prvr report RUN [RUN] (found {len(arguments.runs)})")
    known = tuple(REPORT_SECTIONS) if len(arguments.runs) == 1 else COMPARISON_SECTIONS
    unknown = [key for key in arguments.only if key not in known]
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise RunError(f"no section {', '.join(unknown)}.{hint} There are: {', '.join(known)}")
    if len(arguments.runs) == 2:
        _refuse_options_of_one_run(arguments)
    make = _one if len(arguments.runs) == 1 else _two
    console = Console()
    written = make(arguments, choose_device(arguments.device))
    for section in written.sections if arguments.only else ():
        print_section(section, console)
    if not arguments.only:
        print_verdicts(written.sections, console)
    console.print(f"wrote {written.page}", highlight=False, soft_wrap=True)
    return 0


def _refuse_options_of_one_run(arguments: ReportArguments) -> None:
    names = ("labels", "videos", "query_bank", "vcmr", "retrained")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name)]
    if given:
        raise RunError(f"{', '.join(given)}: only for the report of one run; leave it out to compare two")


def _one(arguments: ReportArguments, device: torch.device) -> WrittenReport:
    run = Run(arguments.runs[0])
    subject = open_subject(
        run,
        data=arguments.data,
        split=arguments.split,
        weights=arguments.weights,
        device=device,
        labels=arguments.labels,
    )
    retrained = retrained_ranks(arguments.retrained, subject, arguments.data)
    extras = ReportExtras(backbone_ranks(subject), retrained, arguments.videos)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("encoding the split", total=None)

        def tick(done: int, total: int) -> None:
            progress.update(task, description="ranking in every way", completed=done, total=total)

        def look(done: int, total: int) -> None:
            progress.update(task, description="searching moments", completed=done, total=total)

        timed = not arguments.only or "efficiency" in arguments.only
        corpus = "vcmr" in arguments.only if arguments.only else arguments.vcmr or None
        bank = sentence_bank(subject) if arguments.query_bank else None
        found = run_study(subject, tick, timed=timed, corpus_moments=corpus, moments_tick=look, bank=bank)
        progress.update(task, description="tables and figures", total=None)
        folder = arguments.out or run.path / "report" / subject.name
        return write_report(found, folder, only=arguments.only, extras=extras, command=_command(arguments))


def _two(arguments: ReportArguments, device: torch.device) -> WrittenReport:
    first, second = arguments.runs
    outcomes = []
    for path in (first, second):
        with Console(stderr=True).status(f"ranking {arguments.split} with {path}"):
            outcomes.append(
                evaluate_run(
                    Run(path), data=arguments.data, split=arguments.split, weights=arguments.weights, device=device
                )
            )
    found = pair_runs(outcomes[0], outcomes[1], (first, second))
    folder = arguments.out or second / "report" / f"against-{first.resolve().name}"
    return write_comparison(found, folder, only=arguments.only, command=_command(arguments))


def _command(arguments: ReportArguments) -> str:
    """The command that writes this report again, without the choice of sections."""
    words = ["prvr", "report", *map(str, arguments.runs)]
    given = {"--out": arguments.out, "--data": arguments.data, "--weights": arguments.weights}
    given |= {"--labels": arguments.labels, "--videos": arguments.videos}
    for flag, value in given.items():
        words += [] if value is None else [flag, str(value)]
    words += ["--query-bank"] if arguments.query_bank else []
    words += ["--vcmr"] if arguments.vcmr else []
    words += [] if arguments.split == "test" else ["--split", arguments.split]
    words += ["--retrained", *map(str, arguments.retrained)] if arguments.retrained else []
    return shlex.join(words)
