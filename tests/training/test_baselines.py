"""The text-to-video and moment-retrieval baselines learn: two short epochs on the tiny world."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from rich.console import Console

from prvr.backbones import build
from prvr.data import DATASETS
from prvr.data.synth import SIZES, write_world
from prvr.evaluation.evaluate import evaluate_run
from prvr.training import ConfigError, Run, TrainConfig, Trainer, load_preset, preset_names, processes
from prvr.training.config import config_from_dict, config_to_dict
from prvr.training.optim import BertAdam, backbone_optimiser
from prvr.training.reporting import read_metrics

SHAPE: dict[str, Any] = {"visual_width": 24, "query_width": 20, "width": 32, "heads": 4, "frames": 24, "dropout": 0.0}


class Learner(NamedTuple):
    """A method at toy size. What learns slowly from scratch starts from larger weights than its release does."""

    method: str
    model: dict[str, Any]
    learning_rate: float = 3e-3
    batch_size: int = 8

    def config(self, **more: Any) -> TrainConfig:
        values = config_to_dict(load_preset("synth", self.method))
        values["model"] |= SHAPE | self.model | more
        values["backbone_stage"] |= {"epochs": 2, "learning_rate": self.learning_rate}
        values["batch_size"] = self.batch_size
        return config_from_dict(values, self.method)


CONQUER: dict[str, Any] = {"inner_width": 64, "head_width": 16, "init_std": 0.15}
LEARNERS = {
    "xml": Learner("xml", {"hard_negative_epoch": 1}),
    "clip4clip": Learner("clip4clip", {"layers": 1}),
    "clip4clip-meanP": Learner("clip4clip", {"head": "meanP"}),
    "clip4clip-seqLSTM": Learner("clip4clip", {"head": "seqLSTM"}),
    "clip4clip-tightTransf": Learner("clip4clip", {"head": "tightTransf", "layers": 1, "init_std": 0.15}),
    "cap4video": Learner("cap4video", {"layers": 1}),
    "conquer": Learner("conquer", CONQUER, learning_rate=1e-3, batch_size=4),
}


@pytest.fixture(scope="module")
def larger_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny world with more videos: enough steps in two epochs that a slow learner shows it learns."""
    root = tmp_path_factory.mktemp("larger")
    write_world(root, replace(SIZES["tiny"], train=240, val=40, test=2), progress=False)
    return root


def train(config: TrainConfig, world: Path, folder: Path) -> tuple[Run, Trainer]:
    run = Run(folder)
    run.create(config, world)
    with processes("cpu") as group:
        trainer = Trainer(config, world, run, group, Console(quiet=True))
        trainer.train()
    return run, trainer


@pytest.mark.parametrize("name", LEARNERS)
def test_two_epochs_lower_the_loss_and_beat_chance(name: str, larger_world: Path, tmp_path: Path) -> None:
    run, trainer = train(LEARNERS[name].config(), larger_world, tmp_path / "run")
    first, last = read_metrics(run.path)
    assert sum(last["loss"].values()) < sum(first["loss"].values())
    videos = len(trainer.validation_set)
    chance = 100.0 * sum(min(1.0, k / videos) for k in (1, 5, 10, 100))
    assert last["base"]["sum_r"] > 1.1 * chance


def test_conquer_reorders_the_best_of_its_first_stage(world: Path, tmp_path: Path) -> None:
    first, _ = train(LEARNERS["xml"].config(), world, tmp_path / "xml")
    config = LEARNERS["conquer"].config(first_stage=str(first.path), candidates=5)
    second, _ = train(config, world, tmp_path / "conquer")
    stage, outcome = evaluate_run(first, split="val"), evaluate_run(second, split="val")
    before, after = stage.record.ranks["base"], outcome.record.ranks["base"]
    assert torch.equal(before <= 5, after <= 5)  # the best five stay the best five
    assert torch.equal(before[before > 5], after[before > 5])
    assert not torch.equal(before, after)


def test_trace_refuses_a_method_that_needs_every_pair(world: Path, tmp_path: Path) -> None:
    config = LEARNERS["conquer"].config()
    config = replace(config, trace_stage=replace(config.trace_stage, epochs=1))
    with pytest.raises(ConfigError, match="conquer scores each query–video pair anew, so TRACE has no tokens"):
        train(config, world, tmp_path / "run")


def test_each_is_trained_with_its_authors_optimiser() -> None:
    stage = load_preset("tvr", "conquer").backbone_stage
    optimiser = backbone_optimiser(build("conquer", **CONQUER, width=32, heads=4), stage)
    assert isinstance(optimiser, torch.optim.AdamW)
    assert (optimiser.defaults["betas"], optimiser.defaults["eps"], stage.schedule) == ((0.9, 0.999), 1e-6, "constant")
    assert {group["weight_decay"] for group in optimiser.param_groups} == {0.0, 0.01}
    for method in ("clip4clip", "cap4video"):
        stage = load_preset("tvr", method).backbone_stage
        optimiser = backbone_optimiser(build(method, width=32, heads=4), stage)
        assert isinstance(optimiser, BertAdam)
        assert {group["beta2"] for group in optimiser.param_groups} == {0.98}
        assert {group["weight_decay"] for group in optimiser.param_groups} == {0.0, 0.2}
        assert (stage.schedule, stage.warmup, stage.clip) == ("cosine", 0.1, 1.0)


@pytest.mark.parametrize("method", sorted({learner.method for learner in LEARNERS.values()}))
def test_every_baseline_has_its_presets_and_they_open_with_the_command(method: str) -> None:
    assert {"activitynet", "charades", "synth", "tvr"} <= set(preset_names(method))
    for name in preset_names(method):
        text = (files("prvr") / "presets" / method / f"{name}.toml").read_text("utf-8")
        assert f"prvr train {name} --method {method} --data DIR" in text.splitlines()[0]
        config = load_preset(name, method)
        assert (config.method, config.trace_stage.epochs, config.selection) == (method, 0, "best")
        if name in DATASETS:
            spec = DATASETS[name]
            assert (config.model.visual_width, config.model.query_width) == (spec.visual_width, spec.query_width)
            assert config.data.visual_feature == spec.visual_feature
