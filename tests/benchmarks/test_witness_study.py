"""What a witness study trains, and in which order; nothing is trained here."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import witness_study
from witness_study import Task


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
