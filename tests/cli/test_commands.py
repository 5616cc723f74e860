"""Whole commands: what they print, what they leave behind, how they fail."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.evaluation import load_record
from prvr.training import Run, load_preset
from prvr.worlds import FEATURE_SIZES, write_feature_world


@pytest.fixture(scope="module")
def runs(world: Path, preset: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a tiny training."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [folder / f"seed{seed}" for seed in (0, 1)]
    for seed, path in enumerate(paths):
        assert main(["train", str(preset), "--data", str(world), "--out", str(path), "--seed", str(seed)]) == 0
    return paths


def fails(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one error line of a command that fails with exit code 1."""
    assert main([str(word) for word in words]) == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.err.lstrip().startswith("error:")  # behind the line that a progress bar leaves
    return " ".join(captured.err.split())


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in ("train", "eval", "data", "demo"))
    assert main([]) == 2
    assert main(["trian"]) == 2
    assert "no command 'trian'. Did you mean 'train'?" in capsys.readouterr().err
    assert main(["--version"]) == 0


def test_eval_shows_base_and_trace_side_by_side_and_keeps_ranks(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(runs[0])]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for row in ("backbone alone", "base branch", "TRACE", "SumR", "mean of the weights of epochs 5, 6", "ΔSumR"):
        assert row in text
    record = load_record(runs[0] / "eval" / "test-average")
    assert set(record.ranks) == {"base", "trace", "backbone", "base_any", "trace_any"}
    assert (record.ranks["base_any"] <= record.ranks["base"]).all()
    assert "any: the best of all correct videos" in text
    assert "share of all correct videos" in text
    assert record.protocol.split == "test"
    assert len(record.query_ids) == len(record.ranks["base"])


def test_eval_of_several_seeds_gives_mean_and_deviation(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", *map(str, runs), "--split", "val"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "±" in text
    assert "mean ± sd of 2 runs" in text


def test_eval_speaks_json(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(runs[0]), "--json", "--weights", "best"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"base", "trace", "backbone"} <= found[0]["recalls"].keys()
    assert "the best on the val split" in found[0]["weights"]


def test_a_run_without_trace_is_evaluated_too(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["train", str(preset), "--data", str(world), "--out", str(out), "--trace-stage.epochs", "0"]
    assert main([*words, "--held-out", "0.2", "--selection", "best"]) == 0
    assert "held-out SumR" in capsys.readouterr().out
    assert main(["eval", str(out)]) == 0
    text = capsys.readouterr().out
    assert "the best on a held-out part of training" in text
    assert "base branch" in text
    assert "TRACE" not in text


def test_training_says_what_is_missing(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert "--data is missing" in fails(capsys, "train", preset, "--out", out)
    assert "name the dataset first" in fails(capsys, "train")
    assert "name at least one run" in fails(capsys, "eval")
    assert "name at least one run" in fails(capsys, "transfer")
    assert "unknown method 'dream'. Did you mean 'dreamprvr'? There are: cap4video" in fails(
        capsys, "train", "synth", "--method", "dream"
    )
    assert "no preset 'charade'" in fails(capsys, "train", "charade", "--data", world)
    assert "name the dataset first" in fails(capsys, "train", "--data", world)
    assert str(tmp_path / "nowhere") in fails(capsys, "train", preset, "--data", tmp_path / "nowhere", "--out", out)
    wrong = fails(capsys, "train", preset, "--data", world, "--out", tmp_path / "b", "--model.visual-width", "9")
    assert "visual width 24, but the model expects 9: train with --model.visual-width 24" in wrong


def test_a_start_that_failed_on_the_data_leaves_nothing_in_the_way(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["train", str(preset), "--data", str(world), "--out", str(out)]
    fails(capsys, *words, "--model.visual-width", "9")
    assert not out.exists()
    short = ["--backbone-stage.epochs", "1", "--trace-stage.epochs", "0"]
    assert main([*words, *short]) == 0


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--batch-size", "1", "batch_size must be at least 2"),
        ("--validate-every", "0", "validate_every must be at least 1"),
        ("--held-out", "1.0", "held_out must be a share"),
        ("--model.heads", "5", "width 16 is not divisible by 5 heads"),
        ("--model.dropout", "2", "model.dropout must be a share"),
        ("--model.width", "1000000000", "model.width must be at least 1 and at most 8,192"),
        ("--backbone-stage.learning-rate", "nan", "backbone_stage.learning_rate must be at least 0"),
        ("--trace-stage.weight-decay", "-1", "trace_stage.weight_decay must be at least 0"),
        ("--model.registers", "0", "model.registers must be at least 1"),
        ("--trace.temperature", "0", "trace.temperature must be above 0"),
        ("--seed", "-1", "seed must be at least 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    flag: str, value: str, message: str, world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in fails(capsys, "train", preset, "--data", world, "--out", tmp_path / "run", flag, value)


def test_brackets_in_a_path_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "[model].toml"
    path.write_text("[model]\nwidht = 3", encoding="utf-8")
    assert "[model].toml [model]: unknown setting 'widht'" in fails(capsys, "train", path, "--data", tmp_path)


def test_eval_says_what_is_wrong_with_a_run(
    runs: list[Path], world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "has no run.json" in fails(capsys, "eval", tmp_path)
    assert "has no weights 'lats'; there are: average, backbone, best, last" in fails(
        capsys, "eval", runs[0], "--weights", "lats"
    )
    assert "caption" in fails(capsys, "eval", runs[0], "--split", "tset")
    assert "no CUDA device: use --device cpu" in fails(capsys, "eval", runs[0], "--device", "cuda")


def test_damaged_runs_are_refused_by_name(
    world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", str(preset), "--data", str(world), "--out", str(out)]) == 0
    capsys.readouterr()
    weights = out / "weights" / "average" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "model.safetensors cannot be read" in fails(capsys, "eval", out)
    (out / "run.json").write_text("{", encoding="utf-8")
    assert "run.json cannot be read" in fails(capsys, "eval", out)


def test_an_interrupted_start_can_be_resumed_before_its_first_checkpoint(
    world: Path, preset: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = ["train", str(preset), "--data", str(world), "--out", str(out), "--resume"]
    Run(out).create(load_preset(str(preset)), world)
    assert main(words) == 0
    assert Run(out).has_weights("average")


def test_a_run_is_resumed_on_the_data_it_was_started_on(
    runs: list[Path], world: Path, preset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, moved = tmp_path / "other", tmp_path / "moved"
    write_feature_world(other, replace(FEATURE_SIZES["tiny"], seed=9, train=39), progress=False)
    shutil.copytree(world, moved)
    words = ["train", preset, "--out", runs[0], "--resume", "--data"]
    assert "was started on other data" in fails(capsys, *words, other)
    assert main([str(word) for word in [*words, moved]]) == 0
    assert "is finished: nothing to do" in capsys.readouterr().out
    assert Run(runs[0]).data == str(moved)
