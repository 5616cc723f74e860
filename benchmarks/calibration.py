"""``python benchmarks/calibration.py --model demo/run``: are a run's probabilities true, over several libraries?

One library of some hundred searches measures an error by chance alone. This joins the searches of several libraries of
rendered films, each of another seed, and shows what was said beside what was true.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from prvr.library import FRAMES, Library, rendered_queries
from prvr.scoring import Calibration, KnownSearches, known_searches
from prvr.training import Run, read_calibration
from prvr.worlds import RENDERED_SIZES, render_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a run of `prvr demo`, which has other films")
    parser.add_argument("--films", type=int, default=120, help="in each library")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4], help="of the worlds; the demo's is 0")
    args = parser.parse_args()
    known = read_calibration(Run(args.model))
    if known is None or known.trace is None:
        parser.error(f"{args.model} has no calibration")
    console = Console(width=120, highlight=False, soft_wrap=True)
    found = []
    for seed in args.seeds:
        found.append(searches(args.model, known.trace, args.films, seed))
        console.print(f"seed {seed}: {found[-1].quality}")
    joined = KnownSearches.joined(found)
    console.print(f"together: {joined.quality}")
    console.print(f"said and true, it is there: {said_and_true(joined.presence, joined.present)}")
    console.print(f"said and true, the first is right: {said_and_true(joined.first, joined.right)}")


def searches(run: Path, calibration: Calibration, films: int, seed: int) -> KnownSearches:
    """All searches of one library, each with its films there and with them left out."""
    from trust import all_scores, best  # imported here: the processes that draw films do not find it

    config = replace(RENDERED_SIZES["demo"], seed=seed, train=1, val=1, test=films)
    with tempfile.TemporaryDirectory() as folder:
        world = render_world(Path(folder) / "films", config, workers=2)
        lib = Library.create(Path(folder) / "library", model=run)
        lib.add([world.videos[script.video] for script in world.scripts["test"]])
        known, groups = rendered_queries(world), lib.snapshot().tracks[FRAMES].by_video
        videos = lib.snapshot().videos
        column = {videos[number].path: place for place, number in enumerate(groups.videos.tolist())}
        positives = [[column[path] for path in query.correct] for query in known]
        return known_searches(calibration, best(groups, all_scores(lib, known)), positives)


def said_and_true(said: NDArray[np.float64], true: NDArray[np.bool_]) -> str:
    bins = np.minimum((said * 10).astype(int), 9)
    parts = (bins == each for each in range(10))
    return ", ".join(f"{said[here].mean():.2f} {true[here].mean():.2f} ({here.sum()})" for here in parts if here.any())


if __name__ == "__main__":
    main()
