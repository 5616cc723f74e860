"""``prvr demo``: a synthetic world, a short training, the comparison, one explained correction."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from prvr.cli.evaluate import show
from prvr.data.synth import SIZES, write_world
from prvr.evaluation.evaluate import evaluate_run, explained_correction
from prvr.training import Run, RunError, Trainer, load_preset, processes

_MARK = ".prvr-demo"


@dataclass(frozen=True)
class DemoArguments:
    """Write a small synthetic world, train on it, compare base and TRACE, draw one correction. Minutes on two cores."""

    out: Path = Path("demo")
    """folder for world, run and picture; an earlier demo in it is replaced"""


def main(argv: list[str]) -> int:
    arguments = tyro.cli(DemoArguments, prog="prvr demo", args=argv)
    console, started = Console(), time.perf_counter()
    out = _fresh(arguments.out)

    _say(console, 1, "a synthetic world: videos with a topic, timed events, and planted unsupported peaks")
    world = write_world(out / "world", SIZES["demo"])
    console.print(f"  written to {world}", highlight=False, markup=False, soft_wrap=True)

    _say(console, 2, "training a small DreamPRVR, then TRACE on it")
    config = load_preset("demo")
    run = Run(out / "run")
    run.create(config, out / "world", command="prvr demo")
    with processes("cpu") as group:
        Trainer(config, out / "world", run, group, console).train()

    _say(console, 3, "ranking unseen videos")
    outcome = evaluate_run(run)
    show([outcome], console)

    _say(console, 4, "one correction, chosen by rule")
    drawn = explained_correction(outcome, out / "correction")
    if drawn is None:
        console.print("  TRACE improved no rank here, so there is nothing to show")
    else:
        case, picture = drawn
        sentence = outcome.dataset.captions[case.query].sentence
        console.print(
            f"  “{sentence}”: rank {case.rank_before} → {case.rank_after}; picture: {picture}", highlight=False
        )
    console.print(
        f"\n[bold]done in {time.perf_counter() - started:.0f} s.[/] A toy world shows that the machinery works,"
    )
    console.print("not how good a method is: docs/findings.md says what was measured so far.")
    return 0


def _fresh(out: Path) -> Path:
    """An empty folder; only one that an earlier demo made is emptied."""
    if out.exists() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise RunError(f"{out} is not empty and was not made by a demo: choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()
    return out


def _say(console: Console, number: int, text: str) -> None:
    console.print(f"\n[bold cyan]{number}/4[/] [bold]{text}[/]", highlight=False, soft_wrap=True)
