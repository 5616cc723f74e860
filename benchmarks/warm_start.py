"""``python benchmarks/warm_start.py DATA``: how soon is a training at full speed that was compiled before?

    prvr data proxy activitynet --annotations ANNOTATIONS --out DATA --encoder MODEL
    python benchmarks/warm_start.py DATA

It needs a GPU. `prvr train` runs twice with the same shapes and `--compile on`, a few epochs each, in a process of its
own. The first fills the compiler's cache where it is empty. Of both it prints the seconds from the start of the process
to the end of the first epoch, and how long a later epoch takes: what the first one took longer is the wait.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from prvr.processes import python_command

_EPOCHS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--preset", default="proxy")
    arguments, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            first, epochs = train(arguments.preset, arguments.data, Path(folder) / name, flags)
            usual = sorted(epochs)[len(epochs) // 2]
            print(
                f"{name}: first epoch ended {first:.1f} s after the start of the process and took {epochs[0]:.1f} s "
                f"itself; a later one takes {usual:.2f} s; at full speed after {first - usual:.1f} s",
                flush=True,
            )


def train(preset: str, data: Path, out: Path, flags: list[str]) -> tuple[float, list[float]]:
    """A short training. Returns the seconds until its first epoch had ended, and those of each epoch's steps."""
    words = ["--data", str(data), "--out", str(out), "--compile", "on", "--validate-every", str(_EPOCHS)]
    words += ["--backbone-stage.epochs", str(_EPOCHS), "--trace-stage.epochs", "0", *flags]
    metrics, began, first = out / "metrics.jsonl", time.perf_counter(), None
    process = subprocess.Popen(python_command("prvr", "train", preset, *words), stdout=subprocess.DEVNULL)
    while process.poll() is None:
        if first is None and metrics.exists() and metrics.read_text().count("\n"):
            first = time.perf_counter() - began
        time.sleep(0.02)
    if process.returncode or first is None:
        raise SystemExit(f"the training ended with code {process.returncode}")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return first, [row["seconds"] for row in rows if "seconds" in row]


if __name__ == "__main__":
    main()
