"""``python benchmarks/trust.py``: is what a search says about itself true? Measured on rendered films.

    python benchmarks/trust.py                          # 120 films with `plain`
    python benchmarks/trust.py --model demo/run         # and with a run of `prvr demo`, which has other films

Sentences are *present* (true of some film), *left out* (the same, with their films removed), *absent* (in the same
words, true of no film and of no flash) or *foreign* (nonsense, things that are not there, other languages).

- sure: how often a search is said to stand out, or to be there with 90 % or more. Without the film, that is a false
  alarm.
- probabilities: expected calibration error and area under the ROC, of "it is there" and of "the first is right".
- support: how often first answers are right in the upper and in the lower third of TRACE's support.
- query bank: SumR if each film's score is lessened by what background sentences score on it (a soft maximum).
- half: how far the stated probabilities of the first answer move if half of the other films are removed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from prvr.evaluation import compare_ranks
from prvr.library import (
    FRAMES,
    KnownQuery,
    Library,
    SearchRequest,
    SearchResult,
    judge,
    rendered_queries,
    score_sections,
)
from prvr.scoring import ranks
from prvr.trace import VerdictScale
from prvr.worlds import RENDERED_SIZES, plan_world, render_world, shown_nowhere

FOREIGN = (
    "xyzzy plugh", "blue whale", "grandma opens the red door", "ein rotes Auto biegt links ab", "un chien noir court",
    "asdf jkl", "quarterly revenue", "une pomme verte tombe", "el gato blanco", "the red planet", "12345", "?!",
)  # fmt: skip
STRENGTHS, TEMPERATURE = (0.25, 0.5, 0.75), 0.1  # of the query bank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=120, help="films in the library")
    parser.add_argument("--model", type=Path, nargs="*", default=[], help="trained runs")
    parser.add_argument("--seed", type=int, default=1, help="of the world; the demo's is 0")
    args = parser.parse_args()
    config = replace(RENDERED_SIZES["demo"], seed=args.seed, train=1, val=1, test=args.films)
    console = Console(width=140, highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config, workers=2)
        films = [world.videos[script.video] for script in world.scripts["test"]]
        others = plan_world(folder, replace(config, seed=args.seed + 1))
        absent = [query.sentence for query in shown_nowhere(world.scripts["test"], others.queries["test"])]
        known = rendered_queries(world)
        console.print(f"{len(films)} films, {len(known)} sentences that are true of one, {len(absent)} of none")
        kinds: list[tuple[str, dict[str, Any]]] = [("plain", {"encoder": "plain", "rate": 2.0})]
        for name, settings in (*kinds, *((str(run), {"model": run}) for run in args.model)):
            lib = Library.create(Path(folder) / Path(name).name, **settings)
            lib.add(films)
            console.print(f"\n[bold]{name}[/]")
            for line in report(lib, known, absent, films):
                console.print(f"  {line}", soft_wrap=True)


def report(lib: Library, known: Sequence[KnownQuery], absent: Sequence[str], films: Sequence[Path]) -> list[str]:
    judged = judge(lib, known)
    found = search(lib, [query.sentence for query in known])
    first_right = np.array([bool(r.hits) and r[0].video.path in q.correct for r, q in zip(found, known, strict=True)])
    sure = np.array([result.confident for result in found])
    right = f"{100 * first_right[sure].mean():.0f} % of them right" if sure.any() else "none"
    lines = [
        f"first answer right: {100 * first_right.mean():.1f} %",
        f"sure: {100 * sure.mean():.1f} % of present ({right}); false alarms: {100 * judged.confident_without:.1f} % "
        f"of left out, {share_sure(search(lib, absent))} of absent, {share_sure(search(lib, FOREIGN))} of foreign",
    ]
    if judged.quality is not None:
        lines.append(f"probabilities: {judged.quality}")
    lifts = np.array([r[0].evidence.support_lift if r.hits and r[0].evidence is not None else 0.0 for r in found])
    lines.append(f"support: {VerdictScale.fit(lifts, first_right)}")
    lines += query_bank(lib, known)
    if judged.quality is not None:
        lines.append(half(lib, known, found, films))
    return lines


def search(lib: Library, sentences: Sequence[str]) -> list[SearchResult]:
    return lib.search_many([SearchRequest(sentence, limit=1) for sentence in sentences])


def share_sure(found: Sequence[SearchResult]) -> str:
    return f"{100 * np.mean([result.confident for result in found]):.1f} %"


def query_bank(lib: Library, known: Sequence[KnownQuery]) -> list[str]:
    """SumR with scores lessened by what background sentences score on a film, for several strengths."""
    sections = lib.snapshot().tracks[FRAMES]
    groups, number_of = sections.by_video, {video.path: number for number, video in lib.snapshot().videos.items()}
    bank = np.concatenate([part for _, part, _ in sections.background_parts(groups)])  # (S, B, 2)
    bank = (bank[..., 0] + sections.fusion_weight * bank[..., 1])[:, sections.understood]
    offsets = TEMPERATURE * np.log(np.exp((bank - bank.max()) / TEMPERATURE).mean(1))  # (S,), up to a constant
    scores = all_scores(lib, known)
    positives = [[groups.column(number_of[path]) for path in query.correct] for query in known]
    columns = [[column for column in each if column is not None] for each in positives]
    plain = ranks(torch.from_numpy(best(groups, scores)), columns)
    lines = []
    for strength in STRENGTHS:
        changed = ranks(torch.from_numpy(best(groups, scores - strength * offsets)), columns)
        lines.append(f"query bank, strength {strength:g}: {compare_ranks(plain, changed)}")
    return lines


def all_scores(lib: Library, known: Sequence[KnownQuery]) -> NDArray[np.float32]:
    """(Q, S): of every sentence on every section, in the order of their videos."""
    sections = lib.snapshot().tracks[FRAMES]
    vectors = lib.encode(FRAMES, [query.sentence for query in known])
    found = score_sections(vectors, sections, lib.scorer).fused(sections.fusion_weight)
    ordered: NDArray[np.float32] = found[:, sections.by_video.numbers]
    return ordered


def best(groups: Any, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """(Q, S) → (Q, V)."""
    return np.stack([groups.best(row) for row in scores.astype(np.float32)])


def half(lib: Library, known: Sequence[KnownQuery], before: Sequence[SearchResult], films: Sequence[Path]) -> str:
    """How far probabilities move if half of the other films are removed."""
    kept = {result[0].video.path for result in before[:20] if result.hits}
    others = [film for film in films if film.resolve() not in kept][: len(films) // 2]
    lib.remove(others)
    after = search(lib, [query.sentence for query in known[:20]])
    pairs = [(a[0], b[0]) for a, b in zip(before[:20], after, strict=True) if a.hits and b.hits]
    moved = [abs((a.confidence or 0) - (b.confidence or 0)) for a, b in pairs if a.video.path == b.video.path]
    there = [
        abs((a.presence.probability or 0) - (b.presence.probability or 0))
        for a, b in zip(before[:20], after, strict=True)
    ]
    return (
        f"half: {len(others)} films removed; the first answer's probability moves by {np.mean(moved):.3f} on average, "
        f"that it is there by {np.mean(there):.3f}"
    )


if __name__ == "__main__":
    main()
