"""The study goes from proxies to tables, and goes on where it stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.worlds import FEATURE_SIZES, write_feature_world

ROOT = Path(__file__).parents[2]
SMALL = """
--model.visual-width 24 --model.query-width 20 --model.width 16 --model.blocks 2 --model.registers 2 --model.frames 24
--model.diffusion-steps 3 --backbone-stage.epochs 1 --trace-stage.epochs 1 --trace-stage.frozen-epochs 0
--trace-stage.snapshots 1 --batch-size 10 --data.collection synth
"""


@pytest.mark.slow
def test_a_study_takes_the_proxies_that_are_there_and_resumes(tmp_path: Path) -> None:
    for name in ("charades-mid-correlated", "charades-mid-correlated-shuffled-pairs"):
        write_feature_world(tmp_path / "data" / name, FEATURE_SIZES["tiny"], progress=False)
        (tmp_path / "data" / name / "proxy").mkdir()  # a world stands in for a proxy that has been made
    command = [sys.executable, str(ROOT / "benchmarks" / "proxy_study.py"), str(tmp_path), "--sources", "charades"]
    command += ["--noise", "mid", "--shapes", "correlated", "--controls", "shuffled-pairs", "--seeds", "0", "1"]
    first = subprocess.run([*command, *SMALL.split()], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    found = json.loads((tmp_path / "study.json").read_text())
    assert {name: len(results) for name, results in found.items()} == {
        "charades-mid-correlated": 2,
        "charades-mid-correlated-shuffled-pairs": 1,
    }
    assert found["charades-mid-correlated"][0]["recalls"]["trace"]["count"] > 0
    assert "(8) Avg" in (tmp_path / "study.md").read_text()
    done = tmp_path / "results" / "charades-mid-correlated" / "seed-1.json"
    before = done.stat().st_mtime_ns
    again = subprocess.run([*command, *SMALL.split()], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert done.stat().st_mtime_ns == before
