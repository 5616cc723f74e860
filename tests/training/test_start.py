"""A training that starts from another run: TRACE on a finished backbone, Cap4Video's branches one after the other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from prvr.cli import main
from prvr.training import Run, read_metrics

SMALL = [
    "--batch-size", "8", "--model.visual-width", "24", "--model.query-width", "20", "--model.width", "32",
    "--model.frames", "24", "--device", "cpu", "--backbone-stage.epochs", "1",
]  # fmt: skip
TRACE = ["--trace-stage.epochs", "2", "--trace-stage.snapshots", "1", "--trace-stage.fusion-start", "0"]


def train(*arguments: str) -> Run:
    assert main(["train", *arguments, "--device", "cpu"]) == 0
    return Run(arguments[arguments.index("--out") + 1])


@pytest.fixture(scope="module")
def backbone(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A baseline without registers, trained without TRACE."""
    out = tmp_path_factory.mktemp("start") / "xml"
    return train("synth", "--method", "xml", "--data", str(world), "--out", str(out), *SMALL, "--model.heads", "4")


def test_trace_is_trained_on_a_finished_backbone_also_after_it_is_gone(
    backbone: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    shutil.copytree(backbone.path, source)
    run = train("--from", str(source), "--out", str(tmp_path / "run"), "--trace.anchors", "hybrid", *TRACE)
    assert run.record["started_from"] == str(source)
    before, after = backbone.weights("best")[0], run.weights("backbone")[0]
    assert all(torch.equal(after[key], tensor) for key, tensor in before.items() if key.startswith("backbone."))
    assert [epoch["phase"] for epoch in read_metrics(run.path)] == ["frozen", "frozen"]
    config = run.config
    assert (config.method, config.backbone_stage.epochs, config.model.hard_negative_epoch) == ("xml", 0, 0)
    shutil.rmtree(source)
    shutil.rmtree(run.path / "checkpoints")  # as if killed before the first one
    shutil.rmtree(run.path / "weights" / "average")
    assert main(["train", "--resume", str(run.path), "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["eval", str(run.path), "--json", "--device", "cpu"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert {"base", "trace", "backbone"} <= shown["recalls"].keys()


def test_the_command_with_resume_starts_or_continues(
    backbone: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, options = str(tmp_path / "run"), ["--trace.anchors", "hybrid", *TRACE]
    command = ["--from", str(backbone.path), "--out", out, *options, "--resume"]
    train(*command)
    assert "resuming" not in capsys.readouterr().out
    train(*command)
    assert "resuming" in capsys.readouterr().out
    other = str(shutil.copytree(backbone.path, tmp_path / "other"))
    assert main(["train", "--from", other, "--out", out, *options, "--resume"]) == 1
    assert "was started from" in capsys.readouterr().err


def test_what_does_not_fit_is_one_sentence(backbone: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["train", "--from", str(backbone.path), "--out", str(tmp_path / "run"), *TRACE, "--device", "cpu"]
    assert main(start) == 1
    assert "xml has no registers for TRACE to activate" in capsys.readouterr().err
    assert main([*start, "--trace.anchors", "hybrid", "--model.width", "16"]) == 1
    assert "does not fit these settings" in capsys.readouterr().err
    assert main([*start, "--method", "mssl"]) == 1
    assert "leave out DATASET and --method" in capsys.readouterr().err
    assert main(["train", "--from", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def add_captions(world: Path) -> None:
    rng = np.random.default_rng(0)
    features = next((world / "synth" / "FeatureData").glob("*/feature.hdf5"))
    with (
        h5py.File(features) as videos,
        h5py.File(world / "synth" / "TextData" / "roberta_synth_caption_feat.hdf5", "w") as captions,
    ):
        for video in videos:
            for number in range(2):
                captions[f"{video}#{number}"] = rng.standard_normal((4, 20)).astype(np.float32)


def test_cap4video_trains_its_branches_one_after_the_other(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(world, data, ignore=shutil.ignore_patterns(".prvr-cache"))
    add_captions(data)
    of = ["synth", "--method", "cap4video", "--data", str(data), *SMALL, "--model.heads", "4", "--model.layers", "1"]
    assert main(["train", *of, "--model.branches", "caption", "--out", str(tmp_path / "early")]) == 1
    assert "name the run that has the rest (--from RUN)" in capsys.readouterr().err
    video = train(*of, "--model.branches", "video", "--out", str(tmp_path / "video"))
    assert read_metrics(video.path)[-1]["loss"].keys() == {"video"}
    both = train("--from", str(video.path), "--model.branches", "caption", "--out", str(tmp_path / "both"))
    assert "caption_pool: not in" in capsys.readouterr().out
    assert read_metrics(both.path)[-1]["loss"].keys() == {"caption"}
    before, after = video.weights("best")[0], both.weights("best")[0]
    frozen = [key for key in before if key.startswith("backbone.") and not key.endswith("logit_scale")]
    assert all(torch.equal(before[key], after[key]) for key in frozen)
    started = both.weights("start")[0]
    pool = [key for key in after if ".caption_pool." in key and key.endswith("weight")]
    assert any(not torch.equal(started[key], after[key]) for key in pool)
    model = both.load_model()[0].backbone
    assert model.train().training
    assert not model.get_submodule("towers").training  # frozen parts run without dropout
    assert main(["eval", str(both.path), "--device", "cpu"]) == 0


def test_a_kill_before_the_first_step_leaves_a_run_that_can_be_resumed_or_none(
    backbone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights that it starts from are there before the run is: killed in between, the same command begins anew."""
    command = ["train", "--from", str(backbone.path), "--out", str(tmp_path / "run"), *TRACE]
    command += ["--trace.anchors", "hybrid", "--device", "cpu"]

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "create", killed)
        assert main(command) == 130
    assert not (tmp_path / "run" / "run.json").exists()
    with monkeypatch.context() as patch:
        patch.setattr("prvr.training.loop.Trainer.train", killed)
        assert main(command) == 130
    assert main(["train", "--resume", str(tmp_path / "run"), "--device", "cpu"]) == 0
