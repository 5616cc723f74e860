"""``python benchmarks/warm_start.py DATA``: how soon is a training at full speed that was compiled before?

    prvr data proxy activitynet --annotations ANNOTATIONS --out DATA --encoder MODEL
    python benchmarks/warm_start.py DATA

It needs a GPU. `prvr train` runs twice with the same shapes and `--compile on`, a few epochs each, in a process of its
own. The first fills the compiler's cache where it is empty. Of both it prints the seconds from the start of the process
to the end of the first epoch, and how long a later epoch takes: what the first one took longer is the wait. With
`--profile FILE`, a third one says which functions it was spent in; all of it takes longer then.
"""

from __future__ import annotations

import argparse
import json
import pstats
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
    parser.add_argument("--only", choices=("first", "second"), help="one of the two, where the cache is kept between")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write there where a third start spends its time")
    arguments, flags = parser.parse_known_args()
    words = ["prvr", "train", arguments.preset, "--data", str(arguments.data), *flags]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second") if arguments.only is None else (arguments.only,):
            first, epochs = train(python_command(*words), Path(folder) / name)
            usual = sorted(epochs)[len(epochs) // 2]
            print(
                f"{name}: first epoch ended {first:.1f} s after the start of the process and took {epochs[0]:.1f} s "
                f"itself; a later one takes {usual:.2f} s; at full speed after {first - usual:.1f} s",
                flush=True,
            )
        if arguments.profile is not None:
            kept = Path(folder) / "profile"
            train(python_command("cProfile", "-o", str(kept), "-m", *words), Path(folder) / "third")
            with arguments.profile.open("w") as file:
                pstats.Stats(str(kept), stream=file).sort_stats("cumtime").print_stats(400)
                pstats.Stats(str(kept), stream=file).sort_stats("tottime").print_stats(100)


def train(command: list[str], out: Path) -> tuple[float, list[float]]:
    """A short training. Returns the seconds until its first epoch had ended, and those of each epoch's steps."""
    command = [*command, "--out", str(out), "--compile", "on", "--validate-every", str(_EPOCHS)]
    command += ["--backbone-stage.epochs", str(_EPOCHS), "--trace-stage.epochs", "0"]
    metrics, began, first = out / "metrics.jsonl", time.perf_counter(), None
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
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
