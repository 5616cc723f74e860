"""The demo on films: draw them, train on some, index others with the trained model, and search those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from prvr.cli.console import print_step, print_table
from prvr.cli.demo_features import train_demo_run
from prvr.cli.search import time_range
from prvr.evaluation import EvidenceCurves, evidence_figure, save_figure
from prvr.library import Hit, KnownQuery, Library, judge, rendered_queries
from prvr.media import open_encoder, open_video
from prvr.trace import temporal_iou
from prvr.training import load_preset
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world, write_rendered_dataset

RATE = 2.0  # frames per second that are encoded
_STEPS, _SEARCHES, _STILLS = 5, 4, 8


def rendered_demo(out: Path, console: Console, workers: int) -> Library:
    """All steps before the page; returns the library to show on it."""
    config = RENDERED_SIZES["demo"]
    films = config.train + config.val + config.test
    print_step(
        console, 1, _STEPS, f"drawing {films} films: places, shapes that move, planted flashes that look like an answer"
    )
    world = _draw(out / "films", workers, console)
    console.print(f"  real .mp4 files: {out / 'films' / 'videos'}", highlight=False, markup=False, soft_wrap=True)

    print_step(console, 2, _STEPS, f"training a small DreamPRVR and TRACE on {config.train} of them")
    write_rendered_dataset(out / "data", world, open_encoder("plain"), rate=RATE, workers=workers)
    trained = train_demo_run(load_preset("rendered"), out / "data", out / "run", console)

    print_step(console, 3, _STEPS, f"a library of {config.test} films that training never saw, made with that model")
    unseen = [world.videos[script.video] for script in world.scripts["test"]]
    lib = Library.create(out / "library", model=trained.path)
    report = lib.add(unseen)
    console.print(
        f"  {report.video_seconds:.0f} s of video in {report.elapsed:.0f} s; the same by hand: prvr library add FILMS "
        f"--library {lib.folder} --model {trained.path}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )

    print_step(console, 4, _STEPS, "searching")
    known = rendered_queries(world)
    picture = _search(lib, known, out / "evidence", console)
    console.print(f"  the evidence for one of them: {picture}", highlight=False, markup=False, soft_wrap=True)

    print_step(console, 5, _STEPS, f"how good: {len(known)} sentences about the unseen films, TRACE off and on")
    untrained = Library.create(out / "untrained", encoder="plain", rate=RATE)
    untrained.add(unseen)
    print_table(console, _table({"trained": lib, "no training": untrained}, known))
    return lib


def _draw(folder: Path, workers: int, console: Console) -> RenderedWorld:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("drawing", total=None)
        return render_world(
            folder,
            RENDERED_SIZES["demo"],
            workers=workers,
            drawn=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _search(lib: Library, known: list[KnownQuery], stem: Path, console: Console) -> Path:
    """Print the answers to one sentence each about a few films; draw the surest, a correct one if there is any."""
    queries = list({query.video: query for query in reversed(known)}.values())[::-1][:_SEARCHES]
    table = Table("sentence", "found", "moment", "sure", "true", box=None, pad_edge=False)
    answers: list[tuple[Hit, KnownQuery]] = []
    for query in queries:
        for hit in lib.search(query.sentence, limit=1):
            right = hit.video.path in query.correct
            sure = "" if hit.confidence is None else f"{100 * hit.confidence:.0f} %"
            true = f"{query.video.stem} {query.start:.1f}–{query.end:.1f} s"
            found = f"{hit.video.path.stem} {'✓' if right else '✗'}"
            table.add_row(query.sentence, found, time_range(hit), sure, true)
            answers.append((hit, query))
    print_table(console, table)
    hit, query = max(answers, key=lambda pair: (pair[0].video.path == pair[1].video, pair[0].confidence or 0.0))
    return draw_hit(hit, query, stem)


def draw_hit(hit: Hit, query: KnownQuery, stem: Path) -> Path:
    """Draw why a film was found: evidence curves, the annotated moment if it is the right film, and stills."""
    own = hit.video.path == query.video
    seen = hit.evidence
    assert seen is not None
    length = float(seen.spans[:, 1].max())
    curves = EvidenceCurves(
        hit.video.path.name,
        direct=seen.direct.astype(np.float64),
        expected_support=seen.expected_support.astype(np.float64),
        routed=seen.routed.astype(np.float64),
        activation=seen.activation.astype(np.float64),
        duration=length,
        moment=(query.start, query.end) if own else None,
    )
    confidence = "unknown" if hit.confidence is None else f"{hit.confidence:.2f}"
    verdict = f"moment {hit.start:.1f}–{hit.end:.1f} s     confidence {confidence}     "
    if own:
        verdict += f"overlap with the true moment {float(temporal_iou(hit.start, hit.end, query.start, query.end)):.2f}"
    else:
        verdict += "not the film that the sentence describes"
    with open_video(hit.video.path) as video:
        stills = [frame.image for frame in video.frames(rate=_STILLS / length)][:_STILLS]
    figure = evidence_figure(query.sentence, verdict, {"Found": curves}, stills)
    return save_figure(figure, stem)[0]


def _table(libraries: dict[str, Library], known: list[KnownQuery]) -> Table:
    table = Table("model", "TRACE", *("R@1", "R@5", "R@10", "SumR", "moment IoU"), box=None, pad_edge=False)
    for name, lib in libraries.items():
        for trace in (False, True):
            found = judge(lib, known, trace=trace)
            recalls = [f"{found.recall[k]:.1f}" for k in (1, 5, 10)]
            mean = f"{found.overlaps.mean():.3f}"
            table.add_row(name, "on" if trace else "off", *recalls, f"{found.recall.sum_r:.1f}", mean)
    return table
