"""``python benchmarks/schedule.py FOLDER``: how long the whole training schedule takes at Charades-STA's size.

It needs a GPU and takes about six minutes, and some more to write the data: a synthetic world as large as the dataset
(5,338 training videos, 1,334 for validation). Training is `prvr train synth`, with the numbers of the Charades-STA
preset: 160 epochs with a full validation after each, checkpoints and logs. It prints the seconds and writes them to
FOLDER/schedule.json.
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
    measured = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "exit": code,
        "epochs": len(epochs),
        "seconds": seconds,
        "steps": sum(epoch.get("seconds", 0.0) for epoch in epochs),
        "method": Run(out).config.method,
    }
    (arguments.folder / "schedule.json").write_text(json.dumps(measured, indent=1))
    print(measured)


def _short() -> list[str]:
    """Flags of a short first training: features are resampled once, which is not part of the schedule."""
    return ["--backbone-stage.epochs", "1", "--trace-stage.epochs", "0", "--compile", "off"]


if __name__ == "__main__":
    main()
