"""Every method goes through the same trainer: two epochs on a small world lower its loss and beat chance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from rich.console import Console

from prvr.backbones import methods
from prvr.evaluation import evaluate_run
from prvr.training import (
    ConfigError,
    Run,
    TrainConfig,
    Trainer,
    config_from_dict,
    config_to_dict,
    join_processes,
    load_preset,
    read_metrics,
)
from prvr.worlds import FEATURE_SIZES, write_feature_world

SHAPE: dict[str, Any] = {"visual_width": 24, "query_width": 20, "width": 32, "frames": 24, "dropout": 0.0}
STILL: dict[str, Any] = {"input_dropout": 0.0, "hard_negative_epoch": 2}  # random negatives in both epochs


class Learner(NamedTuple):
    """A method at toy size. What learns slowly from scratch starts from larger weights than its release does."""

    method: str
    model: dict[str, Any]
    learning_rate: float = 3e-3
    batch_size: int = 8
    trace_epochs: int = 0
    videos: int = 160  # to learn from in an epoch; more where a slow learner needs them to show that it learns

    def config(self, **more: Any) -> TrainConfig:
        values = config_to_dict(load_preset("synth", self.method))
        values["model"] |= SHAPE | self.model | more
        values["backbone_stage"] |= {"epochs": 2, "learning_rate": self.learning_rate}
        values["trace_stage"] |= {"epochs": self.trace_epochs, "frozen_epochs": 0, "fusion_start": 0, "fusion_ramp": 1}
        values["trace_stage"] |= {"warmup_epochs": 1, "snapshots": 1, "learning_rate": 1e-3}
        values["batch_size"] = self.batch_size
        return config_from_dict(values, self.method)


CONQUER: dict[str, Any] = {"heads": 4, "inner_width": 64, "head_width": 16, "init_std": 0.15}
DREAM: dict[str, Any] = STILL | {"blocks": 2, "registers": 3, "diffusion_steps": 3}
HEADS: dict[str, Any] = {"heads": 4, "layers": 1}
LEARNERS = {
    "mssl": Learner("mssl", STILL),
    "gmmformer": Learner("gmmformer", STILL),
    "gmmformer_v2": Learner("gmmformer_v2", STILL),
    "hlformer": Learner("hlformer", STILL | {"hyperbolic_width": 15, "blocks": 4}),
    "holmes": Learner("holmes", STILL | {"blocks": 3, "warmup_epochs": 2}),
    "dreamprvr, then TRACE": Learner("dreamprvr", DREAM, trace_epochs=2),
    "msc_prvr": Learner("msc_prvr", STILL | {"clips": 8, "words": 30}),
    "ral": Learner("ral", STILL),
    "uem": Learner("uem", STILL | {"init_std": 0.1}, videos=240),
    "xml": Learner("xml", {"heads": 4, "hard_negative_epoch": 1}),
    "clip4clip": Learner("clip4clip", HEADS),
    "clip4clip-meanP": Learner("clip4clip", {"heads": 4, "head": "meanP"}),
    "clip4clip-seqLSTM": Learner("clip4clip", {"heads": 4, "head": "seqLSTM"}),
    "clip4clip-tightTransf": Learner("clip4clip", HEADS | {"head": "tightTransf", "init_std": 0.15}, videos=240),
    "cap4video": Learner("cap4video", HEADS | {"captions": False}),
    "conquer": Learner("conquer", CONQUER, learning_rate=1e-3, batch_size=4, videos=240),
}


@pytest.fixture(scope="module")
def larger_worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The tiny world with more videos, by their number."""
    made = {count: tmp_path_factory.mktemp("larger") for count in {learner.videos for learner in LEARNERS.values()}}
    for count, root in made.items():
        write_feature_world(root, replace(FEATURE_SIZES["tiny"], train=count, val=40, test=2), progress=False)
    return made


def train(config: TrainConfig, world: Path, folder: Path) -> tuple[Run, Trainer]:
    run = Run(folder)
    run.create(config, world)
    with join_processes("cpu") as group:
        trainer = Trainer(config, world, run, group, Console(quiet=True))
        trainer.train()
    return run, trainer


def test_no_method_is_left_out() -> None:
    assert {learner.method for learner in LEARNERS.values()} == {
        name for name, cls in methods().items() if cls.trainable
    }


@pytest.mark.parametrize("name", LEARNERS)
def test_two_epochs_lower_the_loss_and_beat_chance(name: str, larger_worlds: dict[int, Path], tmp_path: Path) -> None:
    learner = LEARNERS[name]
    run, trainer = train(learner.config(), larger_worlds[learner.videos], tmp_path / "run")
    first, last, *with_trace = read_metrics(run.path)
    assert sum(last["loss"].values()) < sum(first["loss"].values())
    if with_trace:
        first, last = with_trace
        evidence = [sum(v for term, v in epoch["loss"].items() if term.startswith("trace_")) for epoch in (first, last)]
        assert evidence[1] < evidence[0]
    videos = len(trainer.validation_set)
    chance = 100.0 * sum(min(1.0, k / videos) for k in (1, 5, 10, 100))
    assert last["final"]["sum_r"] > 1.1 * chance
    model, _ = run.load_model()
    assert model.backbone.method == learner.method


def test_conquer_reorders_the_best_of_its_first_stage(world: Path, tmp_path: Path) -> None:
    first, _ = train(LEARNERS["xml"].config(), world, tmp_path / "xml")
    config = LEARNERS["conquer"].config(first_stage=str(first.path), candidates=5)
    second, trainer = train(config, world, tmp_path / "conquer")
    assert trainer.batches.listed is not None  # it learned from the first stage's lists
    stage, outcome = evaluate_run(first, split="val"), evaluate_run(second, split="val")
    before, after = stage.record.ranks["base"], outcome.record.ranks["base"]
    assert torch.equal(before <= 5, after <= 5)  # the best five stay the best five
    assert torch.equal(before[before > 5], after[before > 5])
    assert not torch.equal(before, after)


def test_trace_refuses_a_method_that_needs_every_pair(world: Path, tmp_path: Path) -> None:
    config = LEARNERS["conquer"].config()
    config = replace(config, trace_stage=replace(config.trace_stage, epochs=1))
    with pytest.raises(ConfigError, match="conquer scores each query–video pair separately, so TRACE has no tokens"):
        train(config, world, tmp_path / "run")


def test_trace_asks_for_anchors_where_a_method_has_no_registers_and_trains_with_them(
    world: Path, tmp_path: Path
) -> None:
    config = LEARNERS["xml"]._replace(trace_epochs=1).config()
    with pytest.raises(ConfigError, match=r"xml has no registers .*--trace.anchors hybrid"):
        train(config, world, tmp_path / "refused")
    config = replace(config, trace=replace(config.trace, anchors="hybrid", gate=True))
    run, _ = train(config, world, tmp_path / "run")
    assert {"trace_nce", "trace_triplet"} <= read_metrics(run.path)[-1]["loss"].keys()
