"""The demo on films: draw them, train on some, index others with the trained model, and search those."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from prvr.cli.console import print_step, print_table
from prvr.cli.demo_answers import is_refused, search_all, show_first_answers
from prvr.cli.demo_features import train_demo_run
from prvr.cli.demo_picture import draw_hit
from prvr.library import Judgement, Library, judge, rendered_queries
from prvr.media import open_encoder
from prvr.terminal import Console
from prvr.trace import why_this_one
from prvr.training import Run, load_preset
from prvr.worlds import RENDERED_SIZES, RenderedWorld, plan_world, render_world, shown_nowhere, write_rendered_dataset

RATE = 2.0  # frames per second that are encoded
_STEPS, _SEARCHES = 5, 5


def rendered_demo(out: Path, console: Console, workers: int) -> tuple[Library, str]:
    """All steps before the page; returns the library to show on it, and what was shown."""
    world, trained = _train(out, console, workers)
    lib = _index(out, world, trained, console)
    of_none = _search(lib, world, out / "evidence", console)
    known = rendered_queries(world)
    print_step(console, 5, _STEPS, f"how good: {len(known)} sentences about the unseen films, TRACE off and on")
    untrained = Library.create(out / "untrained", encoder="plain", rate=RATE)
    untrained.add(_unseen(world))
    libraries = {"trained": lib, "no training": untrained}
    judged = {
        (name, trace): judge(library, known, trace=trace)
        for name, library in libraries.items()
        for trace in (False, True)
    }
    print_table(console, _table(judged))
    _say(console, "R@1: of how many sentences the first answer is a film in which the sentence is true, in percent.")
    _say(console, "Any such film counts, not only the one that the sentence was written about.")
    good, plain = judged["trained", True], judged["no training", True]
    if good.quality is not None:
        _say(console, f"confidence, calibrated on validation films: {good.quality}")
    right = f"{(good.ranks == 1).sum()} of {len(known)} sentences about {len(_unseen(world))} unseen films"
    return lib, (
        f"Shown: for {right}, the first answer is a film in which the sentence is true ({good.recall[1]:.0f} %; "
        f"{plain.recall[1]:.0f} % without training). Of sentences that are true of none, {of_none} were refused."
    )


def _train(out: Path, console: Console, workers: int) -> tuple[RenderedWorld, Run]:
    config = RENDERED_SIZES["demo"]
    films = config.train + config.val + config.test
    print_step(
        console, 1, _STEPS, f"drawing {films} films: places, shapes that move, planted flashes that look like an answer"
    )
    world = _draw(out / "films", workers)
    _say(console, f"real .mp4 files: {out / 'films' / 'videos'}")
    print_step(console, 2, _STEPS, f"training a small DreamPRVR and TRACE on {config.train} of them")
    write_rendered_dataset(out / "data", world, open_encoder("plain"), rate=RATE, workers=workers)
    return world, train_demo_run(load_preset("rendered"), out / "data", out / "run", console)


def _draw(folder: Path, workers: int) -> RenderedWorld:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("drawing", total=None)
        return render_world(
            folder,
            RENDERED_SIZES["demo"],
            workers=workers,
            drawn=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _index(out: Path, world: RenderedWorld, trained: Run, console: Console) -> Library:
    unseen = _unseen(world)
    print_step(console, 3, _STEPS, f"a library of {len(unseen)} films that training never saw, made with that model")
    lib = Library.create(out / "library", model=trained.path)
    report = lib.add(unseen)
    _say(
        console,
        f"{report.video_seconds:.0f} s of video in {report.elapsed:.0f} s; the same by hand: prvr library add FILMS "
        f"--library {lib.folder} --model {trained.path}",
    )
    return lib


def _unseen(world: RenderedWorld) -> list[Path]:
    return [world.videos[script.video] for script in world.scripts["test"]]


def _search(lib: Library, world: RenderedWorld, stem: Path, console: Console) -> str:
    """Search the first test sentences, and some that are true of no film; returns how many of those are refused."""
    print_step(console, 4, _STEPS, f"searching: the first {_SEARCHES} test sentences, then some true of no film")
    answers = show_first_answers(lib, world, world.queries["test"][:_SEARCHES], console)
    best = max(answers, key=lambda answer: (answer.truth is not None, answer.hit.confidence or 0.0))
    picture = draw_hit(best.hit, best.sentence, best.truth, stem)
    assert best.hit.evidence is not None  # found by its pictures
    why = why_this_one(best.hit.evidence, best.hit.evidence.spans, best.hit.verdict)
    _say(console, f"why “{best.sentence}” found that: {why} Picture: {picture}")
    # Sentences from another seed, without those that a film of the library shows, be it as a flash.
    others = plan_world(world.folder, replace(RENDERED_SIZES["demo"], seed=RENDERED_SIZES["demo"].seed + 1))
    absent = shown_nowhere(world.scripts["test"], others.queries["test"])
    refused = [result for result in search_all(lib, absent) if is_refused(result)]
    others_refused = [is_refused(result) for result in search_all(lib, world.queries["test"])]
    of_none, of_some = f"{len(refused)} of {len(absent)}", f"{sum(others_refused)} of {len(others_refused)}"
    _say(console, f"refused: {of_none} sentences that are true of no film, {of_some} that are true of one")
    for first in refused[:1]:
        _say(console, f"the first of them: “{first.query}”. {first.message}")
    return of_none


def _table(judged: dict[tuple[str, bool], Judgement]) -> Table:
    table = Table("model", "TRACE", *("R@1", "R@5", "R@10", "SumR", "moment IoU"), box=None, pad_edge=False)
    for (name, trace), found in judged.items():
        recalls = [f"{found.recall[k]:.1f}" for k in (1, 5, 10)]
        mean = f"{found.overlaps.mean():.3f}"
        table.add_row(name, "on" if trace else "off", *recalls, f"{found.recall.sum_r:.1f}", mean)
    return table


def _say(console: Console, text: str) -> None:
    console.print(f"  {text}", highlight=False, soft_wrap=True)
