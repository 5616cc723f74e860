"""``prvr eval`` of several runs: what it says where they are more than seeds of one training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from prvr.cli import main
from prvr.cli.evaluate import differing_settings
from prvr.training import Run, TraceStage, TrainConfig

NOTE = "mean ± sd mixes runs of different settings"


@pytest.fixture(scope="module")
def runs(world: Path, preset: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a tiny training, and one with a shorter phase."""
    folder = tmp_path_factory.mktemp("runs")
    for name, options in (("0", []), ("1", ["--seed", "1"]), ("short", ["--trace-stage.epochs", "3"])):
        words = ["train", str(preset), "--data", str(world), "--out", str(folder / name), *options]
        assert main(words) == 0
    return [folder / name for name in ("0", "1", "short")]


def printed(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["eval", *map(str, runs), "--split", "val"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_settings_in_which_runs_differ_are_named(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(runs, capsys)
    assert "mean ± sd of 3 runs" in text
    assert f"{NOTE}, not only of different seeds: trace_stage.epochs 4, 4, 3" in text


def test_seeds_of_one_training_need_no_note(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(runs[:2], capsys)
    assert "mean ± sd of 2 runs" in text
    assert NOTE not in text


def test_weights_of_before_trace_are_ranked_without_it(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(runs[0], tmp_path / "run"))
    shutil.copytree(run / "weights" / "backbone", run / "weights" / "backbone-best")  # as an unfinished training has it
    capsys.readouterr()
    assert main(["eval", str(run), "--weights", "backbone-best", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert "base" in shown["recalls"]
    assert "trace" not in shown["recalls"]
    assert main(["compare", str(run), "--weights", "backbone-best"]) == 0
    text = capsys.readouterr().out
    assert "not timed" not in text
    assert (run / "eval" / "test-backbone-best" / "cost.json").is_file()


def test_a_witness_is_no_model(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(shutil.copytree(runs[0], tmp_path / "run"))
    run.save_weights("witness", {"weight": torch.zeros(1)})
    assert main(["eval", str(run.path), "--weights", "nosuch"]) == 1
    assert "there are: average, backbone, best, last" in " ".join(capsys.readouterr().err.split())
    assert main(["eval", str(run.path), "--weights", "witness"]) == 1
    assert "error: --weights witness names no model" in capsys.readouterr().err


def test_of_many_settings_the_first_are_named() -> None:
    trace = TraceStage(epochs=40, snapshots=1, margin=0.1, clip=2.0)
    other = TrainConfig(seed=3, batch_size=9, held_out=0.1, selection="best", trace_stage=trace)
    parts = differing_settings([TrainConfig(), other]).split("; ")
    assert len(parts) == 7
    assert parts[-1] == "and 1 more"
    assert not any(part.startswith("seed") for part in parts)
