"""Presets are complete and honest; a wrong one says where."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from prvr.data import DATASETS
from prvr.data.known_features import recognise
from prvr.training import ConfigError, config_from_dict, config_to_dict, load_preset, preset_names

# spec: DreamPRVR's released hyper-parameters and the TRACE paper's section B.1
EXPECTED = {
    "activitynet": {"registers": 4, "backbone": 2.5e-4, "trace": 8e-5, "margin": 0.2, "dropout": 0.31},
    "charades": {"registers": 6, "backbone": 2e-4, "trace": 5e-5, "margin": 0.2, "dropout": 0.25},
    "tvr": {"registers": 8, "backbone": 3e-4, "trace": 2e-6, "margin": 0.1, "dropout": 0.2},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_presets_hold_the_published_numbers(name: str) -> None:
    config, expected = load_preset(name), EXPECTED[name]
    model = config_to_dict(config)["model"]
    assert model["registers"] == expected["registers"]
    assert (model["dropout"], model["margin"]) == (expected["dropout"], expected["margin"])
    assert config.trace_stage.margin == expected["margin"]
    assert (config.backbone_stage.learning_rate, config.trace_stage.learning_rate) == (
        expected["backbone"],
        expected["trace"],
    )
    assert (config.backbone_stage.epochs, config.trace_stage.epochs, config.batch_size) == (100, 60, 128)
    spec = DATASETS[name]
    assert (config.model.visual_width, config.model.query_width) == (spec.visual_width, spec.query_width)
    assert config.data.visual_feature == spec.visual_feature


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_opens_with_the_command_that_uses_it(name: str) -> None:
    text = (files("prvr") / "presets" / "dreamprvr" / f"{name}.toml").read_text("utf-8")
    assert text.startswith(("# prvr ", "# make "))
    load_preset(name)


def test_a_configuration_survives_json() -> None:
    config = load_preset("tvr")
    assert config_from_dict(config_to_dict(config), "here") == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batchsize = 3", "unknown setting 'batchsize'. Did you mean 'batch_size'"),
        ("[model]\nregister = 3", r"\[model\]: unknown setting 'register'"),
        ("batch_size = 'many'", "batch_size: expected int, found 'many'"),
        ("batch_size = true", "batch_size: expected int, found True"),
        ("selection = 'luck'", "selection: 'luck' is not one of average, best, last"),
        ("method = 'dream'", "unknown method 'dream'"),
        ("data = 3", "data: expected a table, found int"),
        ("seed = ", "not valid TOML"),
        ("batch_size = 1000000000", "batch_size must be at least 2 and at most 65,536, not 1e[+]09"),
        ("[model]\nwidth = -1", "model.width must be at least 1"),
        ("[model]\nframes = 999999999999999999999", "model.frames must be at least 1 and at most 1,000,000"),
        ("[trace]\ntemperature = nan", "trace.temperature must be above 0"),
        ("[trace_stage]\nlearning_rate = inf", "trace_stage.learning_rate must be at least 0"),
        ("held_out = -0.5", "held_out must be a share"),
    ],
)
def test_a_wrong_preset_says_where_and_what(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_preset(str(path))


def test_a_missing_preset_lists_the_others() -> None:
    with pytest.raises(ConfigError, match=r"no preset 'charade' .*Did you mean 'charades'\? There are activitynet"):
        load_preset("charade")
    with pytest.raises(ConfigError, match=r"no preset file nowhere.toml"):
        load_preset("nowhere.toml")


def test_a_preset_may_build_on_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('method = "xml"\nlike = "charades"\n[model]\nvisual_width = 768\n')
    config, base = load_preset(str(path)), load_preset("charades", "xml")
    assert (config.model.visual_width, config.model.query_width) == (768, base.model.query_width)
    assert config.backbone_stage == base.backbone_stage
    for like in ("'charade'", "3"):
        path.write_text(f"like = {like}\n")
        with pytest.raises(ConfigError, match=r"Did you mean 'charades'|expected the name of a preset"):
            load_preset(str(path))


@pytest.mark.parametrize("method", sorted(path.name for path in (files("prvr") / "presets").iterdir()))
def test_every_method_has_a_preset_for_qvhighlights(method: str) -> None:
    config = load_preset("qvhighlights", method)
    assert config.data.collection == "qvhighlights"
    known = recognise("qvhighlights", str(config.data.visual_feature))
    assert known is not None
    assert (config.model.visual_width, config.model.query_width) == (known[0].visual_width, known[0].query_width)
