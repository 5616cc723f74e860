"""An authors' checkpoint becomes a run that the other commands take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from prvr.cli import main
from prvr.worlds import FEATURE_SIZES, write_feature_world


@pytest.fixture
def authors_file(golden: Callable[[str], Any], tmp_path: Path) -> Path:
    case = golden("dreamprvr")
    path = tmp_path / "best.ckpt"
    torch.save({"config": case.config, "epoch": 33, "state_dict": case.weights}, path)
    return path


def test_an_imported_checkpoint_is_evaluated_and_transferred(
    authors_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, out = tmp_path / "world", tmp_path / "run"
    write_feature_world(world, replace(FEATURE_SIZES["tiny"], visual_width=20, query_width=24), progress=False)
    words = ["--dataset", "synth", "--data", str(world), "--out", str(out)]
    assert main(["import-checkpoint", "dreamprvr", str(authors_file), *words]) == 0
    assert "every key used" in capsys.readouterr().out
    assert main(["eval", str(out)]) == 0
    assert "the authors' best.ckpt" in capsys.readouterr().out
    assert main(["transfer", str(out)]) == 0


def test_a_wrong_file_says_which_keys_differ(
    authors_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = torch.load(authors_file, weights_only=True)
    content["state_dict"]["strange.weight"] = content["state_dict"].pop("modular_vector_mapping.weight")
    torch.save(content, authors_file)
    words = ["--dataset", "synth", "--data", str(tmp_path), "--out", str(tmp_path / "run")]
    assert main(["import-checkpoint", "dreamprvr", str(authors_file), *words]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "missing (modular_vector_mapping.weight)" in error
    assert "not known (strange.weight)" in error
    assert main(["import-checkpoint", "frozen", str(authors_file), *words]) == 1
    assert "frozen cannot read checkpoints of its authors" in capsys.readouterr().err
    assert main(["import-checkpoint", "dream", str(authors_file), *words]) == 1
    assert "unknown method 'dream'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_features_of_another_width_are_refused_at_once(
    authors_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_feature_world(tmp_path / "world", FEATURE_SIZES["tiny"], progress=False)
    words = ["--dataset", "synth", "--data", str(tmp_path / "world"), "--out", str(tmp_path / "run")]
    assert main(["import-checkpoint", "dreamprvr", str(authors_file), *words]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "visual width" in error
    assert "the model expects 20" in error
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_where_its_data_is_missing(
    authors_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--dataset", "synth", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path / "run")]
    assert main(["import-checkpoint", "dreamprvr", str(authors_file), *words]) == 1
    assert "nowhere is not a folder" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
