"""What a training says when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.scoring import calibration
from prvr.terminal import Console
from prvr.training import Run, Trainer, join_processes, load_preset


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
