"""The demo on feature files: a synthetic dataset, a short training, base against TRACE, one explained correction."""

from __future__ import annotations

from pathlib import Path

from prvr.cli.console import print_step
from prvr.cli.evaluate import print_outcomes
from prvr.evaluation import evaluate_run, explained_correction
from prvr.terminal import Console
from prvr.training import Run, TrainConfig, Trainer, join_processes, load_preset
from prvr.worlds import FEATURE_SIZES, write_feature_world

_STEPS = 4


def features_demo(out: Path, console: Console) -> str:
    """All steps of the demo, printed as they happen; returns what was shown."""
    print_step(
        console, 1, _STEPS, "a synthetic world: videos with a topic, timed events, and planted unsupported peaks"
    )
    world = write_feature_world(out / "world", FEATURE_SIZES["demo"])
    console.print(f"  written to {world}", highlight=False, soft_wrap=True)

    print_step(console, 2, _STEPS, "training a small DreamPRVR, then TRACE on it")
    trained = train_demo_run(load_preset("demo"), out / "world", out / "run", console)

    print_step(console, 3, _STEPS, "ranking unseen videos")
    outcome = evaluate_run(trained)
    print_outcomes([outcome], console)

    print_step(console, 4, _STEPS, "one query that TRACE corrected")
    drawn = explained_correction(outcome, out / "correction")
    if drawn is None:
        console.print("  TRACE improved no rank here, so there is nothing to show")
        return "Shown: training, and base against TRACE on unseen videos; TRACE improved no rank."
    case, picture = drawn
    sentence = outcome.dataset.captions[case.query].sentence
    ranks = f"rank {case.rank_before} → {case.rank_after}"
    console.print(f"  “{sentence}”: {ranks}; picture: {picture}", highlight=False, soft_wrap=True)
    return f"Shown: training, base against TRACE on unseen videos, and one query that TRACE corrected ({ranks})."


def train_demo_run(config: TrainConfig, data: Path, folder: Path, console: Console) -> Run:
    """Train a preset from its first epoch to its last."""
    found = Run(folder)
    found.create(config, data, command="prvr demo")
    with join_processes("cpu") as group:
        Trainer(config, data, found, group, console).train()
    return found
