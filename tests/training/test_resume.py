"""Killed anywhere and resumed, a run ends with the weights of one that never stopped."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import tyro
from safetensors.torch import load_file

from prvr.cli.train import TrainArguments
from prvr.training import Run, TrainConfig, Trainer, TrainingError, join_processes, load_preset, read_metrics
from tests.training.trainings import Training


@pytest.fixture(scope="module")
def uninterrupted(preset: Path, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained from beginning to end."""
    out = tmp_path_factory.mktemp("whole") / "run"
    Training(preset, world, out).finish()
    return out


def assert_same(one: Path, other: Path) -> None:
    for name in ("average", "last", "best", "backbone"):
        a, b = (load_file(run / "weights" / name / "model.safetensors") for run in (one, other))
        assert a.keys() == b.keys()
        different = [key for key in a if not torch.equal(a[key], b[key])]
        assert not different, f"weights {name!r} differ in {different[:3]}"

    def story(run: Path) -> list[dict[str, object]]:
        return [{k: v for k, v in epoch.items() if k != "seconds"} for epoch in read_metrics(run)]

    assert story(one) == story(other)


@pytest.mark.parametrize(
    ("checkpoint_steps", "kills"),
    [pytest.param(0, [4, 12], id="between", marks=pytest.mark.slow), pytest.param(1, [3, 14], id="inside")],
)
def test_a_killed_run_ends_with_the_same_weights(
    checkpoint_steps: int, kills: list[int], preset: Path, world: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    flags = ["--checkpoint-seconds", "0", "--checkpoint-steps", str(checkpoint_steps)]
    for step in kills:  # 4 steps per epoch: between epochs only multiples of 4 are kept
        training = Training(preset, world, out, "--resume", *flags)
        training.signal_after_step(step)
        assert training.wait() == -signal.SIGKILL
    assert "resuming" in Training(preset, world, out, "--resume", *flags).finish()
    assert_same(uninterrupted, out)


def test_ctrl_c_keeps_the_step_and_tells_how_to_continue(
    preset: Path, world: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    training = Training(preset, world, out, "--checkpoint-seconds", "0")
    training.signal_after_step(8, signal.SIGINT)
    assert training.wait() == 130, training.output
    assert "--resume" in training.output
    assert "Traceback" not in training.output
    Training(preset, world, out, "--resume", "--checkpoint-seconds", "0").finish()
    assert_same(uninterrupted, out)


def test_a_run_records_what_made_it(uninterrupted: Path) -> None:
    record = json.loads((uninterrupted / "run.json").read_text("utf-8"))
    assert record["config"]["model"]["width"] == 16
    assert record["config"]["seed"] == 0
    assert record["versions"].keys() == {"prvr", "torch", "python"}
    assert "revision" in record
    assert "train" in record["command"]
    epochs = read_metrics(uninterrupted)
    assert [e["phase"] for e in epochs] == ["backbone"] * 2 + ["frozen"] + ["joint"] * 3
    assert [round(e["fusion_weight"], 3) for e in epochs] == [0, 0, 0, 0, 0.015, 0.03]
    assert list((uninterrupted / "tensorboard").glob("events*"))
    assert not list((uninterrupted / "weights").glob("epoch-*"))


def test_a_second_start_in_the_same_folder_is_refused(preset: Path, world: Path, uninterrupted: Path) -> None:
    again = Training(preset, world, uninterrupted)
    assert again.wait() == 1
    assert f"already holds a run: `prvr train --resume {uninterrupted}` continues it" in again.output
    changed = Training(preset, world, uninterrupted, "--resume", "--seed", "3")
    assert changed.wait() == 1
    assert "another configuration (seed 0 → 3)" in changed.output


def test_a_finished_run_resumed_has_nothing_to_do(preset: Path, world: Path, uninterrupted: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in uninterrupted.glob("weights/*/*")}
    assert "is finished" in Training(preset, world, uninterrupted, "--resume").finish()
    assert {p: p.stat().st_mtime_ns for p in uninterrupted.glob("weights/*/*")} == before


CORNERS = {
    "hand-over of the best": [
        *("--backbone-stage.hand-over", "best", "--backbone-stage.epochs", "3"),
        *("--trace-stage.epochs", "2"),
    ],
    "patience": ["--backbone-stage.patience", "1", "--backbone-stage.epochs", "6", "--trace-stage.epochs", "0"],
    "held out": ["--held-out", "0.25", "--selection", "best"],
}


@pytest.mark.parametrize("corner", CORNERS)
def test_corners_of_the_schedule_resume_too(corner: str, preset: Path, world: Path, tmp_path: Path) -> None:
    """Stopped by an error at many places, files half written included, then resumed until it is done."""
    config = configured(preset, ["--batch-size", "20", *CORNERS[corner]])
    whole = tmp_path / "whole"
    train(config, world, whole)
    broken = tmp_path / "broken"
    Run(broken).create(config, world)
    for fault in itertools.count(1):
        try:
            with failing_file_operation(fault * 3):
                train(config, world, broken)
            break
        except InjectedFault:
            continue
    assert fault > 3, "the faults came too late to test anything"
    for name in sorted(p.name for p in (whole / "weights").iterdir()):
        a, b = (load_file(run / "weights" / name / "model.safetensors") for run in (whole, broken))
        assert all(torch.equal(a[key], b[key]) for key in a), name
    assert sorted(p.name for p in (broken / "weights").iterdir()) == sorted(
        p.name for p in (whole / "weights").iterdir()
    )


class InjectedFault(BaseException):
    """Stands for a kill: nothing catches it."""


@contextmanager
def failing_file_operation(number: int) -> Iterator[None]:
    """Let the given rename fail, before or after it happens by turns."""
    count = 0
    originals = {"rename": os.rename, "replace": os.replace}

    def faulty(name: str) -> Callable[[str, str], None]:
        def operation(source: str, target: str) -> None:
            nonlocal count
            count += 1
            if count == number and number % 2:
                raise InjectedFault
            originals[name](source, target)
            if count == number:
                raise InjectedFault

        return operation

    with pytest.MonkeyPatch.context() as patch:
        for name in originals:
            patch.setattr(os, name, faulty(name))
        yield


def configured(preset: Path, flags: list[str]) -> TrainConfig:
    default = TrainArguments(dataset=str(preset), config=load_preset(str(preset)))
    words = [str(preset), "--checkpoint-seconds", "0", *flags]
    return tyro.cli(TrainArguments, args=words, default=default).config


def train(config: TrainConfig, world: Path, out: Path) -> None:
    run = Run(out)
    if not (out / "run.json").exists():
        run.create(config, world)
    with join_processes("cpu") as group:
        Trainer(config, world, run, group, None).train()


def test_averages_are_of_the_last_phase_only(preset: Path, world: Path, tmp_path: Path) -> None:
    cases = {
        "one": (["--trace-stage.epochs", "1", "--trace-stage.snapshots", "3"], [2]),
        "two": (["--trace-stage.epochs", "0", "--backbone-stage.epochs", "4"], [2, 3]),
    }
    for name, (flags, epochs) in cases.items():
        train(configured(preset, ["--batch-size", "40", *flags]), world, tmp_path / name)
        assert Run(tmp_path / name).weights("average")[1]["epochs"] == epochs


def test_ctrl_c_stops_a_run_of_one_step_epochs(preset: Path, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ["--batch-size", "40", "--checkpoint-seconds", "0", "--backbone-stage.epochs", "500"]
    training = Training(preset, world, out, *flags)
    training.signal_after_step(3, signal.SIGINT)
    assert training.wait() == 130, training.output


def test_a_ruined_model_never_replaces_a_good_checkpoint(preset: Path, world: Path, tmp_path: Path) -> None:
    flags = ["--backbone-stage.learning-rate", "1e6", "--checkpoint-steps", "1"]
    with pytest.raises(TrainingError, match="the loss became"):
        train(configured(preset, flags), world, tmp_path / "run")
    kept = Run(tmp_path / "run").load_checkpoint()
    assert kept is None or all(torch.isfinite(tensor).all() for tensor in kept[0].values())
