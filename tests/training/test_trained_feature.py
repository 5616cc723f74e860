"""A run keeps to the features that it was trained on when its dataset gets others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import pytest

from prvr.cli import main
from prvr.data import DataError
from prvr.training import Run, read_sweep

CPU = ["--device", "cpu"]


@pytest.fixture(scope="module")
def first(world: Path, preset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dataset that has one feature, and a run on it."""
    folder = tmp_path_factory.mktemp("feature")
    shutil.copytree(world, folder / "data")
    assert train(folder, preset) == 0
    return folder


@pytest.fixture
def folder(first: Path, tmp_path: Path) -> Path:
    """The same where a second feature was added since."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    record = Run(tmp_path / "run").record | {"data": str(tmp_path / "data")}
    write_record(tmp_path, record)
    shutil.copytree(features(tmp_path) / "synth", features(tmp_path) / "second")
    return tmp_path


def train(folder: Path, preset: Path, *words: str) -> int:
    return main(["train", str(preset), "--data", str(folder / "data"), "--out", str(folder / "run"), *CPU, *words])


def features(folder: Path) -> Path:
    return folder / "data" / "synth" / "FeatureData"


def write_record(folder: Path, record: dict[str, object]) -> None:
    (folder / "run" / "run.json").write_text(json.dumps(record), encoding="utf-8")


def forget(folder: Path) -> None:
    """Make the run one of an earlier version."""
    record = Run(folder / "run").record
    del record["visual_feature"]
    write_record(folder, record)


def test_every_command_finds_the_features_of_the_run(folder: Path, preset: Path) -> None:
    run, data = str(folder / "run"), str(folder / "data")
    assert Run(folder / "run").config.data.visual_feature is None
    assert main(["eval", run, *CPU]) == 0
    assert main(["eval", run, "--data", data, *CPU]) == 0
    assert main(["compare", run, *CPU]) == 0
    assert main(["transfer", run, "--anchors", "temporal-4", *CPU]) == 0
    assert main(["train", "--resume", run, *CPU]) == 0
    assert train(folder, preset, "--resume") == 0
    assert train(folder, preset, "--resume", "--data.visual-feature", "synth") == 0
    assert train(folder, preset, "--resume", "--data.visual-feature", "second") == 1
    assert main(["train", "--from", run, "--out", str(folder / "next"), *CPU]) == 0


def test_older_runs_know_their_features_by_their_recipe(folder: Path) -> None:
    forget(folder)
    (features(folder) / "second" / "recipe.json").write_text('{"encoder": "another"}', encoding="utf-8")
    run = Run(folder / "run")
    assert run.config_for(run.data).data.visual_feature == "synth"
    assert main(["train", "--resume", str(run.path), *CPU]) == 0
    assert run.visual_feature == "synth"


def test_older_runs_know_their_features_by_their_width(folder: Path) -> None:
    forget(folder)
    with h5py.File(features(folder) / "second" / "feature.hdf5", "r+") as file:
        for name in list(file):
            rows = file[name][:, :3]
            del file[name]
            file[name] = rows
    run = Run(folder / "run")
    assert run.config_for(run.data).data.visual_feature == "synth"


def test_where_nothing_tells_the_advice_helps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forget(folder)
    run = folder / "run"
    assert main(["eval", str(run), *CPU]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "does not say which one it was trained on" in error
    assert '("visual_feature": "NAME")' in error
    write_record(folder, Run(run).record | {"visual_feature": "synth"})
    assert main(["eval", str(run), *CPU]) == 0


def test_a_run_on_features_that_are_gone_does_not_guess(folder: Path) -> None:
    shutil.copytree(features(folder) / "second", features(folder) / "third")
    shutil.rmtree(features(folder) / "synth")
    run = Run(folder / "run")
    with pytest.raises(DataError, match=r"several features \(second, third\), and .* was trained on synth"):
        run.config_for(run.data)


def test_a_sweep_names_its_features_among_the_settings(folder: Path) -> None:
    file = folder / "sweep.toml"
    text = f'methods = ["dreamprvr"]\n[datasets.synth]\npreset = "own"\ndata = "{folder / "data"}"\n'
    file.write_text(f'{text}[settings]\ndata.visual_feature = "second"\n', encoding="utf-8")
    assert [run.config.data.visual_feature for run in read_sweep(file).runs] == ["second"]
