"""What a witness study trains, and in which order; nothing is trained here."""

from __future__ import annotations

import json
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import witness_study
from witness_study import Task

ROOT = Path(__file__).parents[2]


def asked(study: Path, **changed: object) -> Namespace:
    usual = {"study": study, "cells": ["world"], "seeds": [0, 1], "bases": [], "steps": None, "inputs": "auto"}
    return Namespace(**{**usual, "quick": False, "epochs": None, "compile": "off", **changed})


def test_the_usual_base_comes_first_and_a_longer_one_last(tmp_path: Path) -> None:
    queued = [task.name for task in witness_study.tasks(asked(tmp_path, bases=["longer", "quarter"]))]
    assert queued == [
        "world-seed0",
        "world-seed1",
        "world-seed0-quarter",
        "world-seed1-quarter",
        "world-seed0-longer",
        "world-seed1-longer",
    ]


@pytest.mark.parametrize(("base", "epochs"), [("usual", 100), ("longer", 200), ("quarter", 25)])
def test_other_bases_are_trained_longer_or_shorter(tmp_path: Path, base: str, epochs: int) -> None:
    assert witness_study.configuration(Task("world", 0, base), asked(tmp_path)).backbone_stage.epochs == epochs


def test_no_steps_mean_no_witness(tmp_path: Path) -> None:
    steps = [
        witness_study.witness_stage(Task("world", 0), asked(tmp_path, steps=steps)).steps for steps in (None, 7, 0)
    ]
    assert steps == [1500, 7, 0]


@pytest.mark.parametrize(("chosen", "read"), [("raw", "raw"), ("", "auto")])
def test_beside_a_second_base_a_witness_reads_what_it_read_without(tmp_path: Path, chosen: str, read: str) -> None:
    """An empty choice: the usual base was measured without witnesses."""
    kept = tmp_path / "results" / "world-seed0" / "about.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"inputs": chosen}))
    assert witness_study.witness_stage(Task("world", 0, "second"), asked(tmp_path)).inputs == read


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "0", "0"], "names one twice"),
        (["--seeds", "0", "--bases", "second"], "name at least two --seeds"),
        (["--bases", "alike"], "is for charades"),
        (["--cells", "charades-draw"], "charades-draw needs --annotations"),
        (["--steps", "-1"], "--steps must be at least 0"),
        (["--ablations", "typo"], "and no typo"),
        (["--before", __file__], "not a ranks.zip"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study"
    monkeypatch.setattr(sys, "argv", ["witness_study.py", str(study), "--cells", "world", *words])
    with pytest.raises(SystemExit) as ended:
        witness_study.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not study.exists()


def test_earlier_results_are_collected_again(tmp_path: Path) -> None:
    """The ranks that the repository keeps can be given with --before."""
    study = asked(tmp_path, out=tmp_path)
    with zipfile.ZipFile(ROOT / "benchmarks" / "results" / "worlds.zip") as archive:
        archive.extractall(tmp_path / "results")
    witness_study.Queue(study).collect()
    found = json.loads((tmp_path / "results.json").read_text())
    assert {"world-seed0", "world-seed0-longer", "stress-seed2"} <= found.keys()
    with zipfile.ZipFile(tmp_path / "ranks.zip") as again:
        assert f"{min(found)}/ranks.csv" in again.namelist()
