"""TensorBoard and Weights & Biases: chosen by a flag, continued by a resumed run, and unable to stop a training."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from prvr.cli import main
from prvr.errors import Interrupted, MissingExtra
from prvr.training import ConfigError, parse_loggers, read_metrics
from prvr.training.loggers import EpochLoggers

SHORT = ["--backbone-stage.epochs", "2", "--trace-stage.epochs", "0", "--checkpoint-seconds", "0"]


class StandInWandb(ModuleType):
    """What ``WandbLogger`` uses of the package, with a memory. ``broken``: the call that fails."""

    def __init__(self, broken: str = ""):
        super().__init__("wandb")
        self.broken = broken
        self.runs: list[dict[str, Any]] = []
        self.rows: list[Mapping[str, float]] = []
        self.ended: list[int] = []

    class Settings:
        model_fields: ClassVar = {"console": None}

        def __init__(self, **given: Any):
            assert given == {"console": "off"}

    def _require(self, call: str) -> None:
        if self.broken == call:
            raise RuntimeError(f"{call}: no network\nmore")

    def init(self, **given: Any) -> StandInWandb:
        self._require("init")
        self.runs.append(given)
        return self

    def define_metric(self, name: str, step_metric: str | None = None) -> None: ...

    def log(self, row: Mapping[str, float]) -> None:
        self._require("log")
        self.rows.append(row)

    def finish(self, exit_code: int) -> None:
        self._require("finish")
        self.ended.append(exit_code)


@pytest.fixture
def wandb(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StandInWandb:
    module = StandInWandb(getattr(request, "param", ""))
    monkeypatch.setitem(sys.modules, "wandb", module)
    module.__spec__ = find_spec("json")  # any: a package that is there
    return module


def test_one_flag_names_them_all(preset: Path, world: Path, tmp_path: Path, wandb: StandInWandb) -> None:
    out = tmp_path / "run"
    arguments = ["train", str(preset), "--data", str(world), "--out", str(out), *SHORT]
    assert main([*arguments, "--log", "tensorboard,wandb"]) == 0
    metrics = read_metrics(out)
    board = EventAccumulator(str(out / "tensorboard")).Reload()
    assert [event.value for event in board.Scalars("final/sum_r")] == pytest.approx(
        [epoch["final"]["sum_r"] for epoch in metrics]
    )
    assert [(row["epoch"], row["final/sum_r"]) for row in wandb.rows] == [
        (epoch["epoch"], epoch["final"]["sum_r"]) for epoch in metrics
    ]
    assert wandb.ended == [0]
    assert wandb.runs[0]["config"]["model"]["width"] == 16
    assert wandb.runs[0]["name"] == "run"


def test_ctrl_c_ends_the_log_and_resuming_continues_it(
    preset: Path, world: Path, tmp_path: Path, wandb: StandInWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def log_and_interrupt(row: Mapping[str, float]) -> None:
        StandInWandb.log(wandb, row)
        raise Interrupted

    monkeypatch.setattr(wandb, "log", log_and_interrupt)
    monkeypatch.setattr("prvr.training.loggers.EpochLoggers._try", lambda self, name, action: action())
    arguments = ["train", str(preset), "--data", str(world), "--out", str(out), *SHORT, "--log", "wandb"]
    assert main(arguments) == 130
    assert wandb.ended == [130]
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    assert main(["train", "--resume", str(out)]) == 0
    assert [run["id"] for run in wandb.runs] == [wandb.runs[0]["id"]] * 2
    assert {run["resume"] for run in wandb.runs} == {"allow"}
    assert wandb.ended == [130, 0]
    assert [row["epoch"] for row in wandb.rows][-1] == 1


@pytest.mark.parametrize("wandb", ["init", "log", "finish"], indirect=True)
def test_a_logger_that_fails_is_left_out_with_one_sentence(tmp_path: Path, wandb: StandInWandb) -> None:
    said: list[str] = []
    loggers = EpochLoggers(["tensorboard", "wandb"], tmp_path, 0, {}, said.append)
    for epoch in range(3):
        loggers.log({"epoch": epoch, "loss": {"nce": 0.5, "broken": float("nan")}})
    loggers.close(0)
    assert said == [f"wandb failed ({wandb.broken}: no network): training goes on without it"]
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert board.Tags()["scalars"] == ["loss/nce"]
    assert len(board.Scalars("loss/nce")) == 3


def test_names_are_checked_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_loggers("none") == ()
    assert parse_loggers(" tensorboard , tensorboard") == ("tensorboard",)
    with pytest.raises(ConfigError, match=r"no logger 'tensorbord'\. Did you mean 'tensorboard'"):
        parse_loggers("tensorbord")
    monkeypatch.setattr("prvr.training.loggers.find_spec", lambda name: None)
    assert parse_loggers(None) == ()
    with pytest.raises(MissingExtra, match=r'pip install "prvr\[wandb\]"'):
        parse_loggers("wandb")


@pytest.mark.skipif(find_spec("wandb") is None, reason='needs pip install "prvr[wandb]"')
def test_weights_and_biases_itself(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    out = tmp_path / "run"
    arguments = ["train", str(preset), "--data", str(world), "--out", str(out), *SHORT]
    assert main([*arguments, "--log", "wandb"]) == 0
    assert "failed" not in capsys.readouterr().out
    kept = (out / "wandb-id").read_text("utf-8").strip()
    assert len(list((out / "wandb").glob(f"offline-run-*-{kept}/run-{kept}.wandb"))) == 1
    assert json.loads((out / "run.json").read_text("utf-8"))["log"] == "wandb"
