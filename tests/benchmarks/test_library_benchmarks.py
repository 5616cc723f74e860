"""The benchmarks of libraries run, small: they share their synthetic vectors, across processes too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {
    "library_search.py": ("--hours 0.5 --minutes 1 --width 16 --searches 3", "exact, TRACE off"),
    "server_load.py": ("--videos 20 --minutes 1 --width 16 --clients 4 --searches 8 --rounds 1", "0 of 8 failed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str) -> None:
    flags, said = SMALL[name]
    command = [sys.executable, str(ROOT / "benchmarks" / name), *flags.split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert said in ended.stdout
