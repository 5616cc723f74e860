"""The benchmarks of libraries run, small: they share their synthetic vectors, across processes too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prvr.library import Library, Piece

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import library_search as synthetic

ROOT = Path(__file__).parents[2]
SMALL = {
    "library_search.py": ("--videos 700 --minutes 1 --width 16 --searches 3 --index", "of the exact best ten"),
    "cold_start.py": ("--times 1", "prvr search --shell, eleven lines"),
    "library_words.py": ("--videos 20 --lines 50 --times 1", "words that occur nowhere"),
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


@pytest.mark.parametrize("frames", [1, 40])
def test_videos_made_together_are_those_that_a_track_makes(tmp_path: Path, frames: int) -> None:
    lib = Library.create(tmp_path / "library", encoder=synthetic.SyntheticEncoder(16))
    track, start = lib.tracks["frames"], np.arange(frames, dtype=np.float64)
    for number, made in enumerate(synthetic.pending(lib, track, range(5), frames)):
        walk = synthetic.walk(frames, 16, np.random.default_rng((7, number)))
        (alone,) = track.sections([Piece(walk, np.stack([start, start + 1], 1))])
        (section,) = made
        assert (section.about, section.tokens, set(section.arrays)) == (alone.about, alone.tokens, set(alone.arrays))
        for name, array in alone.arrays.items():
            assert section.arrays[name] == pytest.approx(array, abs=2e-3)
