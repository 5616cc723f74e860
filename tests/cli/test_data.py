"""`prvr data` on the command line: worlds, conversion and checks."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from prvr.cli import main as prvr
from prvr.data import Dataset


def main(words: list[str]) -> int:
    return prvr(["data", *words])


def test_no_or_an_unknown_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert main(["--help"]) == 0
    assert main(["bogus"]) == 2
    out = capsys.readouterr().out
    assert out.count("convert") >= 3


def test_synth_takes_its_numbers_from_the_size_and_then_from_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["synth", str(tmp_path), "--size", "tiny", "--seed", "3", "--visual-width", "12", "--test", "9"]) == 0
    assert str(tmp_path / "synth") in capsys.readouterr().out
    data = Dataset.load(tmp_path, "synth", "test")
    assert (len(data), data.visual_width, data.query_width) == (9, 12, 20)


def test_square_brackets_of_a_name_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are no styles, and what looks like the end of one is no error."""
    place = tmp_path / "old [1]" / "[" / "x]"
    assert main(["synth", str(place), "--size", "tiny"]) == 0
    assert main(["check", str(place)]) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert shown.count("".join(str(place).split())) >= 2


def test_convert_and_check_work_on_a_synthetic_bigfile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", str(tmp_path), "--size=tiny", "--store", "bigfile"]) == 0
    assert main(["convert", str(tmp_path)]) == 0
    assert (tmp_path / "synth" / "FeatureData" / "synth" / "feature.hdf5").is_file()
    assert main(["convert", str(tmp_path / "synth" / "FeatureData" / "synth"), "--force"]) == 0
    assert main(["check", str(tmp_path)]) == 0
    assert "40 videos" in capsys.readouterr().out


def test_convert_takes_features_that_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """QVHighlights as it is published: ``prvr data convert`` on the collection's folder converts both parts."""
    features = tmp_path / "qvhighlights" / "FeatureData"
    (tmp_path / "qvhighlights" / "TextData").mkdir(parents=True)
    parts = [features / name for name in ("slowfast_features", "clip_features")]
    for part in parts:
        part.mkdir(parents=True)
        np.savez(part / "a.npz", features=np.ones((5, 4), np.float32))
    assert main(["convert", str(tmp_path)]) == 0
    assert all((part / "feature.hdf5").is_file() for part in parts)
    (parts[1] / "feature.hdf5").unlink()
    assert main(["convert", str(tmp_path)]) == 0  # the rest, where it was interrupted
    assert capsys.readouterr().out.count("wrote") == 3


def test_convert_says_that_one_file_is_converted_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("TextData", "FeatureData"):
        (tmp_path / "mine" / place).mkdir(parents=True)
    with h5py.File(tmp_path / "mine" / "FeatureData" / "mine_clip_L14.h5", "w") as file:
        file["a"] = np.ones((5, 4), np.float32)
    assert main(["convert", str(tmp_path)]) == 0
    assert "mine_clip_L14.h5 is one HDF5 file already" in capsys.readouterr().out


def test_check_fails_where_something_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "charades" / "TextData").mkdir(parents=True)
    assert main(["check", str(tmp_path)]) == 1
    assert "wrong" in capsys.readouterr().out


@pytest.mark.parametrize("line", [["check", "nowhere"], ["convert", "nowhere"], ["synth", "nowhere", "--topics", "1"]])
def test_a_data_error_is_one_line_and_status_1(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_wrong_option_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    assert main(["synth", "x", "--size", "huge"]) == 2
    assert main(["synth", "--help"]) == 0
    assert "--visual-width" in capsys.readouterr().out
