"""HLFormer and Holmes train from a preset: the loss falls, and videos are found."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from rich.console import Console

from prvr.data import DATASETS
from prvr.training import Run, Trainer, load_preset, preset_names
from prvr.training.config import config_from_dict, config_to_dict
from prvr.training.distributed import Processes
from prvr.training.reporting import read_metrics

METHODS = ["hlformer", "holmes"]
TINY = {
    "batch_size": 4,
    "selection": "best",
    "precision": "fp32",
    "data": {"collection": "synth"},
    "backbone_stage": {"epochs": 8, "learning_rate": 3e-3, "warmup": 0.1},
    "trace_stage": {"epochs": 0},
}
SIZES = {"visual_width": 24, "query_width": 20, "width": 32, "frames": 24, "dropout": 0.1, "input_dropout": 0.1}
OWN = {
    "hlformer": {"hyperbolic_width": 15, "blocks": 4, "hard_negative_epoch": 8},
    "holmes": {
        "blocks": 3,
        "hard_negative_epoch": 8,
        "warmup_epochs": 1,
    },  # all epochs but the first are of the second phase
}
# spec: the releases' hyper-parameters; dropout, margin, rate, patience, and what only this method has
EXPECTED = {
    ("hlformer", "activitynet"): (0.31, 0.2, 2.5e-4, 10, {"weight_order": 1e-3, "clip_weight": 0.7}),
    ("hlformer", "charades"): (0.25, 0.2, 2e-4, 10, {"weight_order": 1e-3, "clip_weight": 0.7}),
    ("hlformer", "tvr"): (0.2, 0.1, 3e-4, 10, {"weight_order": 1e-3, "clip_weight": 0.7}),
    ("holmes", "activitynet"): (0.31, 0.2, 2.5e-4, 10, {"weight_intra": 1e-4, "evidence_temperature": 0.04}),
    ("holmes", "charades"): (0.25, 0.2, 2e-4, 20, {"weight_intra": 9e-4, "evidence_temperature": 0.08}),
    ("holmes", "tvr"): (0.2, 0.1, 3e-4, 20, {"weight_intra": 0.8, "evidence_temperature": 0.05}),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_few_short_epochs_lower_the_loss_and_find_videos(method: str, world: Path, tmp_path: Path) -> None:
    config = config_from_dict(TINY | {"method": method, "model": SIZES | OWN[method]}, "here")
    run = Run(tmp_path / "run")
    run.create(config, world)
    trainer = Trainer(config, world, run, Processes(0, 1, torch.device("cpu")), Console(quiet=True))
    trainer.train()
    first, *_, last = read_metrics(run.path)
    assert sum(last["loss"].values()) < 0.8 * sum(first["loss"].values())
    new = last["loss"].keys() - first["loss"].keys()
    assert new == ({"intra"} if method == "holmes" else set())  # Holmes' second phase adds a term
    chance = 100 * 5 / len(trainer.validation_set)
    assert last["base"]["r5"] > 1.25 * chance
    model, _ = run.load_model("best")
    assert model.backbone.method == method


@pytest.mark.parametrize(("method", "name"), EXPECTED)
def test_presets_hold_the_published_numbers(method: str, name: str) -> None:
    config = load_preset(name, method)
    dropout, margin, rate, patience, own = EXPECTED[method, name]
    model = config_to_dict(config)["model"]
    assert (model["dropout"], model["input_dropout"], model["margin"]) == (dropout, dropout, margin)
    assert {key: model[key] for key in own} == own
    stage = config.backbone_stage
    assert (stage.epochs, stage.learning_rate, stage.patience, config.trace_stage.epochs) == (100, rate, patience, 0)
    spec = DATASETS[name]
    assert (config.model.visual_width, config.model.query_width) == (spec.visual_width, spec.query_width)
    assert config.data.visual_feature == spec.visual_feature


@pytest.mark.parametrize("method", METHODS)
def test_defaults_are_the_charades_preset_and_every_preset_names_its_command(method: str) -> None:
    charades = load_preset("charades", method)
    assert charades.model == type(charades.model)()
    assert preset_names(method) == ["activitynet", "charades", "synth", "tvr"]
    for name in preset_names(method):
        text = (files("prvr") / "presets" / method / f"{name}.toml").read_text("utf-8")
        assert f"prvr train {name} --method {method} --data DIR" in text.splitlines()[0]
        assert load_preset(name, method).method == method
