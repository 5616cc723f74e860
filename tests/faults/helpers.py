"""Faults for real processes: kills at random moments, small disks, read-only disks, limits; and how a refusal looks."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

TIMEOUT = 300.0
# A command with its modules loaded before it says so: a kill after that falls into its work, not into its imports.
_COMMAND = """
import importlib, sys
importlib.import_module(f"prvr.cli.{sys.argv[1]}")
from prvr.cli import main
print("ready", flush=True)
sys.exit(main(sys.argv[1:]))
"""


def kills(usual: int) -> int:
    """How many kills a test does: 200 in all, or a share of them where PRVR_KILLS says another sum."""
    return max(1, round(usual * int(os.environ.get("PRVR_KILLS", "200")) / 200))


def start(*words: object, limits: Mapping[int, int] | None = None, **more: str) -> subprocess.Popen[str]:
    """A ``prvr`` command in a process of its own, just before its work begins."""

    def limit() -> None:
        for name, value in (limits or {}).items():
            resource.setrlimit(name, (value, value))

    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"} | more,
        preexec_fn=limit if limits else None,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready", process.communicate()[0]
    return process


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the end; what it said."""
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    return output


def refusal(process: subprocess.Popen[str]) -> str:
    """The one sentence of a command that refuses: status 1, no traceback."""
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1, output
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if line.startswith("error:")]
    assert len(lines) == 1, output
    return lines[0]


def killed(process: subprocess.Popen[str], rng: random.Random, longest: float) -> bool:
    """Kill -9 at a random moment within ``longest`` seconds; whether that came before its end."""
    time.sleep(rng.uniform(0, longest))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    return process.returncode == -signal.SIGKILL


def kill_again_and_again(
    begin: Callable[[], subprocess.Popen[str]], count: int, seed: int, longest: float, after: Callable[[], None]
) -> None:
    """Begin and kill until ``count`` kills have come before the end; ``after`` looks at what each leaves."""
    rng, hits = random.Random(f"{seed} {os.environ.get('PRVR_SEED', '')}"), 0
    for _ in range(5 * count + 10):
        hits += killed(begin(), rng, longest)
        after()
        if hits == count:
            return
    raise AssertionError(f"only {hits} of {count} kills came before the end: the work is too short for {longest:.1f} s")


def seconds_of(begin: Callable[[], subprocess.Popen[str]]) -> float:
    """How long the work takes undisturbed."""
    process = begin()
    began = time.monotonic()
    finish(process)
    return time.monotonic() - began


@contextmanager
def disk(place: Path, size: int) -> Iterator[Path]:
    """A small disk of its own, in memory; skips the test where mounting is not allowed."""
    place.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def remount(place: Path, options: str) -> None:
    """Change a disk under its users: "ro", "rw", "size=8m"."""
    _mount("-o", f"remount,{options}", place)


def _mount(*words: object) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a disk takes root")
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")


def files_of(folder: Path, but: Sequence[str] = ()) -> dict[str, bytes]:
    """Every file of a folder by its name."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: content for name, content in found.items() if not name.endswith(tuple(but))}
