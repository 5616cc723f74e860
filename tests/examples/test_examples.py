"""The examples run as they are, on films that are drawn on the spot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prvr.media import open_video

EXAMPLES = Path(__file__).parents[2] / "examples"


def output_of(name: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_search_my_folder(tmp_path: Path) -> None:
    text = output_of("search_my_folder.py", "--out", tmp_path)
    assert "16 added, 0 unchanged, 0 could not be read" in text
    with open_video(tmp_path / "moment.mp4") as clip:
        assert clip.info.duration
    again = output_of("search_my_folder.py", tmp_path / "films", "a blue circle", "--out", tmp_path)
    assert "0 added, 16 unchanged" in again


@pytest.mark.slow
def test_train_on_my_annotations(tmp_path: Path) -> None:
    text = output_of("train_on_my_annotations.py", "--short", "--out", tmp_path)
    assert "16 videos" in text
    assert (tmp_path / "run" / "weights" / "average" / "calibration.json").is_file()
    assert text.count("right with") <= 3


def test_trace_on_my_tokens_prefers_what_the_rest_of_the_video_supports() -> None:
    lines = output_of("trace_on_my_tokens.py").splitlines()
    flash, scene = ([float(word) for word in line.split()[-3:]] for line in lines[1:3])
    assert flash[0] > scene[0]  # the strongest frame alone prefers the flash
    assert flash[1] > scene[1]  # which nothing around it supports
    assert flash[2] < scene[2]


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(EXAMPLES / "search_my_folder.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert any("16 videos added" in out.get("text", "") for out in outputs)
    shown = [out["data"] for out in outputs if "data" in out]
    assert sum("image/jpeg" in data for data in shown) == 3
    assert any("image/png" in data for data in shown)
