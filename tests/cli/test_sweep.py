"""``prvr sweep`` and ``prvr compare`` for real: stopped, resumed, one run that fails, and the tables of the rest."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from prvr.cli import main as prvr
from prvr.training import Run

WRONG = """[methods.wrong]
method = "dreamprvr"
[methods.wrong.settings]
model.visual_width = 7
"""
SWEEP = """
data = "{world}"
[methods.dreamprvr]
{wrong}[datasets.tiny]
preset = "{preset}"
[settings]
checkpoint_seconds = 0
backbone_stage.epochs = 3
trace_stage.epochs = 1
trace_stage.snapshots = 1
"""


def interrupt_after_a_checkpoint(folder: Path) -> None:
    ends = time.monotonic() + 100
    while not list(folder.glob("*/checkpoints/[0-9]*")) and time.monotonic() < ends:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_sweep_is_trained_and_compared(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "small.toml", tmp_path / "out"
    text = SWEEP.format(world=world, preset=preset, wrong="")
    text = text.replace("checkpoint_seconds = 0\n", "").replace("epochs = 3", "epochs = 1")
    file.write_text(text, encoding="utf-8")
    words = ["--at-once", "2", "--device", "cpu", "--log", "none"]  # one thread each: little spinning on busy cores
    assert prvr(["sweep", str(file), "--out", str(out), *words]) == 0
    assert "done: 1 of 1 run finished" in capsys.readouterr().out
    assert prvr(["compare", str(out), "--device", "cpu"]) == 0
    assert "dreamprvr + TRACE" in capsys.readouterr().out
    assert (out / "compare" / "comparison.html").is_file()


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was_stopped(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "small.toml", tmp_path / "out"
    file.write_text(SWEEP.format(world=world, preset=preset, wrong=WRONG), encoding="utf-8")
    words = ["sweep", str(file), "--out", str(out), "--device", "cpu", "--log", "none"]
    assert prvr([*words, "--plan"]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert not out.exists()
    threading.Thread(target=interrupt_after_a_checkpoint, args=(out,)).start()
    assert prvr(words) == 130
    told = capsys.readouterr().out
    assert "to be saved first" in told
    assert "continues from here" in told
    first = Run(out / "tiny-dreamprvr-seed0")
    assert not first.has_weights("average"), "it was stopped before its end"
    assert "stopped; `prvr train --resume" in (out / "logs" / "tiny-dreamprvr-seed0.log").read_text("utf-8")

    assert prvr([*words, "--at-once", "2"]) == 1
    told = capsys.readouterr()
    assert "resumed: dreamprvr on tiny, seed 0" in told.out
    assert "2/2" in told.out
    assert "validation SumR" in told.out
    assert "done: 1 of 2 runs finished" in told.out
    errors = [line for line in told.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "tiny-wrong-seed0: the synth features" in errors[0]
    assert "have visual width 24, but the model expects 7" in errors[0]
    assert first.has_weights("average")

    assert prvr(["compare", str(out), "--device", "cpu"]) == 0
    told = capsys.readouterr()
    assert "ranking test with" in told.err
    assert "(1 of 1)" in told.err
    assert "Not finished and left out" in told.out
    assert "dreamprvr + TRACE" in told.out
    assert (out / "compare" / "comparison.html").is_file()
    assert prvr(["compare", str(out), "--device", "cpu"]) == 0
    assert "ranking" not in capsys.readouterr().err, "what was ranked is kept"
