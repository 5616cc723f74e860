"""Files cut short: safetensors, HDF5, TOML, JSON, a catalogue, a shard. One sentence that names the file."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import Library
from prvr.training import Run
from tests.cli.test_commands import fails


@pytest.fixture(scope="module")
def trained(preset: Path, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    assert main(["train", str(preset), "--data", str(world), "--out", str(run)]) == 0
    return run


def cut(path: Path, share: float = 0.5) -> Path:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    return path


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_weights_and_checkpoints(
    share: float, trained: Path, preset: Path, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    capsys.readouterr()
    damaged = cut(run / "weights" / "average" / "model.safetensors", share)
    assert f"{damaged} cannot be read" in fails(capsys, "eval", run)
    (checkpoint,) = (run / "checkpoints").iterdir()
    damaged = cut(checkpoint / "optimiser.safetensors", share)
    said = fails(capsys, "train", preset, "--data", world, "--out", run, "--resume")
    assert f"{damaged} cannot be read" in said
    assert "continue with --resume" in said
    shutil.rmtree(checkpoint)  # as it says; then there is nothing to refuse any more
    assert Run(run).load_checkpoint() is None


@pytest.mark.parametrize("name", ["run.json", "weights/average/model.json"])
def test_the_records_of_a_run(name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained, tmp_path / "run")
    capsys.readouterr()
    damaged = cut(tmp_path / "run" / name)
    assert f"{damaged} cannot be read" in fails(capsys, "eval", tmp_path / "run")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_features(share: float, preset: Path, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(world, tmp_path / "world", ignore=shutil.ignore_patterns(".prvr-cache"))
    (features,) = tmp_path.rglob("FeatureData/*/feature.hdf5")
    cut(features, share)
    assert main(["data", "check", str(tmp_path / "world")]) == 1
    capsys.readouterr()
    assert str(features) in fails(capsys, "train", preset, "--data", tmp_path / "world", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_preset(preset: Path, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.toml"
    own.write_bytes(preset.read_bytes()[:-9] + b"= [")
    assert f"{own} is not valid TOML" in fails(capsys, "train", own, "--data", world, "--out", tmp_path / "run")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
@pytest.mark.parametrize("name", ["library.json", "catalogue.sqlite", "local.values.bin"])
def test_a_library(name: str, share: float, whole: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings are in the catalogue as well; of vectors that are cut, those that are complete are searched."""
    lib = tmp_path / "library"
    shutil.copytree(whole.folder, lib)
    cut(next(lib.rglob(name)), share)
    status = main(["search", "a red square", "--library", str(lib), "--json"])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    if name == "library.json" or (name == "local.values.bin" and share):
        assert status == 0, said.err
        assert name == "library.json" or "left out" in json.loads(said.out)["message"]
    else:
        assert status == 1, said.out
        assert name.split(".")[0] in said.err
    assert main(["library", "verify", "--library", str(lib)]) == 1


@pytest.mark.parametrize(("name", "share"), [("catalogue.sqlite", 0.0), ("local.values.bin", 0.5)])
def test_adding_does_not_cover_damage_up(
    name: str, share: float, whole: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by a new catalogue that knows of nothing, and not by zeros where vectors were."""
    lib, film = tmp_path / "library", tmp_path / "another.mp4"
    shutil.copytree(whole.folder, lib)
    film.write_bytes(whole.videos()[0].path.read_bytes() + b"\0")
    damaged = cut(next(lib.rglob(name)), share)
    before = damaged.read_bytes()
    for _ in range(2):
        if name == "catalogue.sqlite":
            assert str(damaged) in fails(capsys, "library", "add", film, "--library", lib)
        else:  # it goes into another shard
            assert main(["library", "add", str(film), "--library", str(lib)]) == 0
            assert main(["library", "verify", "--library", str(lib)]) == 1
            assert str(damaged) in capsys.readouterr().out.replace("\n", "")
        assert damaged.read_bytes() == before


@pytest.mark.parametrize("name", ["local.values.bin", "registers.values.bin", "routes.grounding.bin", "pages.bin"])
def test_arrays_of_noise(name: str, whole: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lib = tmp_path / "library"
    shutil.copytree(whole.folder, lib)
    damaged = next(lib.rglob(name))
    damaged.write_bytes(random.Random(1).randbytes(damaged.stat().st_size))
    if name != "pages.bin":  # the catalogue says it too
        assert "`prvr library verify` names the files" in fails(capsys, "search", "a red square", "--library", lib)
    assert main(["library", "verify", "--library", str(lib)]) == 1
    assert str(damaged.parent) in capsys.readouterr().out.replace("\n", "")
