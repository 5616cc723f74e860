"""``python benchmarks/schedule.py FOLDER``: how long the whole training schedule takes at Charades-STA's size.

It needs a GPU and takes about eight minutes: a synthetic world as large as the dataset is written (5,338 training
videos, 1,334 for validation), a short training resamples the features and fills the compiler's cache, and then the
whole schedule is timed. Training is `prvr train synth`, with the numbers of the Charades-STA preset: 160 epochs with a
full validation after each, checkpoints and logs. It prints the seconds and writes them to FOLDER/schedule.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import time
from pathlib import Path

import torch

from prvr.processes import python_command
from prvr.training import Run
from prvr.worlds import FEATURE_SIZES, write_feature_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    arguments, flags = parser.parse_known_args()
    world, out = arguments.folder / "world", arguments.folder / "run"
    if not world.exists():
        write_feature_world(
            world, dataclasses.replace(FEATURE_SIZES["full"], train=5338, val=1334, test=8, frames=(20, 128))
        )
    started = time.perf_counter()
    train(world, arguments.folder / "warm", [*_short(), *flags])
    warm_up = time.perf_counter() - started
    started = time.perf_counter()
    train(world, out, flags)
    seconds = time.perf_counter() - started
    epochs = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines() if "seconds" in line]
    measured = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "epochs": len(epochs),
        "seconds": seconds,
        "steps": sum(epoch.get("seconds", 0.0) for epoch in epochs),
        "first_epoch": epochs[0]["seconds"],
        "short_training_before": warm_up,
        "method": Run(out).config.method,
    }
    (arguments.folder / "schedule.json").write_text(json.dumps(measured, indent=1))
    print(measured)


def train(world: Path, out: Path, flags: list[str]) -> None:
    """A training in a process of its own, with its start."""
    subprocess.run(
        python_command("prvr", "train", "synth", "--data", str(world), "--out", str(out), *flags), check=True
    )


def _short() -> list[str]:
    """Flags of a short first training, with an epoch of each phase."""
    stages = {"backbone-stage.epochs": 1, "trace-stage.epochs": 2, "trace-stage.frozen-epochs": 1}
    return [part for name, value in stages.items() for part in (f"--{name}", str(value))] + ["--compile", "on"]


if __name__ == "__main__":
    main()
