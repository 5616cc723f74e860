"""How long the whole schedule takes at Charades-STA's size: 160 epochs, a full validation after each.

    python benchmarks/schedule.py FOLDER        (a GPU; about six minutes, and some more to draw the world)

Features are those of a synthetic world as large as the dataset (5,338 training videos, 1,334 to validate on); training
is `prvr train synth`, whose numbers are the Charades-STA preset's, checkpoints and logs included. Prints seconds and
writes them to FOLDER/schedule.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import torch

from prvr.cli import main as prvr
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
    prvr(["train", "synth", "--data", str(world), "--out", str(arguments.folder / "warm"), *_short(), *flags])
    started = time.perf_counter()
    code = prvr(["train", "synth", "--data", str(world), "--out", str(out), *flags])
    seconds = time.perf_counter() - started
    epochs = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines() if "seconds" in line]
    found = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "exit": code,
        "epochs": len(epochs),
        "seconds": seconds,
        "steps": sum(epoch.get("seconds", 0.0) for epoch in epochs),
        "method": Run(out).config.method,
    }
    (arguments.folder / "schedule.json").write_text(json.dumps(found, indent=1))
    print(found)


def _short() -> list[str]:
    """Features are resampled once for all trainings; that is data preparation, not the schedule."""
    return ["--backbone-stage.epochs", "1", "--trace-stage.epochs", "0", "--compile", "off"]


if __name__ == "__main__":
    main()
