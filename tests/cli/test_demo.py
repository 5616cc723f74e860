"""The demo runs end to end (shortened here; ``make demo`` runs all of it)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from prvr.cli import demo
from prvr.cli import main as prvr
from prvr.data.synth import SIZES
from prvr.training import TrainConfig, load_preset


def short(name: str) -> TrainConfig:
    config = load_preset(name)
    stage = dataclasses.replace(config.trace_stage, epochs=2, fusion_start=0, fusion_ramp=0, warmup_epochs=0)
    return dataclasses.replace(
        config, backbone_stage=dataclasses.replace(config.backbone_stage, epochs=2), trace_stage=stage
    )


def test_the_demo_ends_with_a_table_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "load_preset", short)
    monkeypatch.setitem(SIZES, "demo", dataclasses.replace(SIZES["demo"], train=64, val=20, test=30))
    out = tmp_path / "demo"
    for _ in range(2):  # a second demo replaces the first
        assert prvr(["demo", "--out", str(out)]) == 0
        text = capsys.readouterr().out
        assert all(step in text for step in ("1/4", "2/4", "3/4", "4/4", "SumR", "done in"))
    picture = out / "correction.png"
    assert picture.stat().st_size > 10_000 if picture.exists() else "improved no rank" in text


def test_the_demo_never_empties_a_folder_it_did_not_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    assert prvr(["demo", "--out", str(tmp_path)]) == 1
    assert "was not made by a demo" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").exists()
