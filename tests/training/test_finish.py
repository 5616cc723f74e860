"""What a training says when it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prvr.scoring import calibration
from prvr.terminal import Console
from prvr.training import Run, Trainer, join_processes, load_preset, read_metrics


@pytest.mark.parametrize(("fewest", "is_said"), [(20, False), (10_000, True)])
def test_too_few_sentences_for_probabilities_are_told(
    preset: Path,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fewest: int,
    is_said: bool,
) -> None:
    monkeypatch.setattr(calibration, "FEWEST_QUERIES", fewest)
    run = Run(tmp_path / "run")
    run.create(load_preset(str(preset)), world)
    with join_processes("cpu") as group:
        Trainer(run.config, world, run, group, Console(width=200)).train()
    assert ("no probabilities" in capsys.readouterr().out) is is_said


def test_patience_counts_validations(preset: Path, world: Path, tmp_path: Path) -> None:
    """Nothing is learned, so the first of them stays the best."""
    config = load_preset(str(preset))
    backbone = replace(config.backbone_stage, epochs=10, learning_rate=1e-30, weight_decay=0.0, patience=1)
    trace = replace(config.trace_stage, epochs=0)
    config = replace(config, backbone_stage=backbone, trace_stage=trace, validate_every=2)
    run = Run(tmp_path / "run")
    run.create(config, world)
    with join_processes("cpu") as group:
        Trainer(config, world, run, group, Console(quiet=True)).train()
    epochs = read_metrics(run.path)
    assert [epoch["epoch"] for epoch in epochs if "final" in epoch] == [1, 3, 5]
    assert len(epochs) == 6
