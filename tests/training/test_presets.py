"""Presets: the published numbers, the features of each dataset, the authors' optimisers."""

from __future__ import annotations

from importlib.resources import files

import pytest
import torch

from prvr.backbones import build
from prvr.data import DATASETS
from prvr.training import backbone_optimiser, config_to_dict, load_preset, preset_names
from prvr.training.optim import BertAdam

BASELINES = ["xml", "clip4clip", "cap4video", "conquer"]
METHODS = ["hlformer", "holmes"]
# spec: the releases' hyper-parameters; dropout, margin, rate, patience, and what only this method has
EXPECTED = {
    ("hlformer", "activitynet"): (0.31, 0.2, 2.5e-4, 10, {"weight_order": 1e-3, "clip_weight": 0.7}),
    ("hlformer", "charades"): (0.25, 0.2, 2e-4, 10, {"weight_order": 1e-3, "clip_weight": 0.7}),
    ("hlformer", "tvr"): (0.2, 0.1, 3e-4, 10, {"weight_order": 1e-3, "clip_weight": 0.7}),
    ("holmes", "activitynet"): (0.31, 0.2, 2.5e-4, 10, {"weight_intra": 1e-4, "evidence_temperature": 0.04}),
    ("holmes", "charades"): (0.25, 0.2, 2e-4, 20, {"weight_intra": 9e-4, "evidence_temperature": 0.08}),
    ("holmes", "tvr"): (0.2, 0.1, 3e-4, 20, {"weight_intra": 0.8, "evidence_temperature": 0.05}),
}


def test_each_is_trained_with_its_authors_optimiser() -> None:
    stage = load_preset("tvr", "conquer").backbone_stage
    optimiser = backbone_optimiser(build("conquer", width=32, heads=4, inner_width=64), stage)
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


@pytest.mark.parametrize("method", BASELINES)
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
    assert preset_names(method) == ["activitynet", "charades", "qvhighlights", "synth", "tvr"]
    for name in preset_names(method):
        text = (files("prvr") / "presets" / method / f"{name}.toml").read_text("utf-8")
        assert f"prvr train {name} --method {method} --data DIR" in text.splitlines()[0]
        assert load_preset(name, method).method == method
