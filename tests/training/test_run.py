"""A run's folder: what it says about weights that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prvr.cli import main
from prvr.training import Run, RunError, load_preset


@pytest.fixture
def interrupted(preset: Path, world: Path, tmp_path: Path) -> Run:
    """A run whose training was stopped behind the checkpoint of its first step."""
    run = Run(tmp_path / "my run")
    run.create(load_preset(str(preset)), world)
    run.save_checkpoint(1, {"weight": torch.zeros(1)}, {}, {})
    return run


def test_an_unfinished_training_says_how_to_continue(interrupted: Run) -> None:
    command = f"`prvr train --resume '{interrupted.path}'` continues it"
    with pytest.raises(RunError, match="is not finished, so it has no weights 'average'") as error:
        interrupted.load_model()
    assert str(error.value).endswith(command)
    interrupted.save_weights("backbone-best", {"weight": torch.zeros(1)}, epoch=0)
    with pytest.raises(RunError) as error:
        interrupted.load_model()
    assert str(error.value).endswith(f"{command}; `prvr eval --weights` takes what there is: backbone-best")


@pytest.mark.parametrize("words", [["eval"], ["report"], ["explain", "--errors", "1"]])
def test_commands_that_rank_say_so(interrupted: Run, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    interrupted.save_weights("backbone-best", {"weight": torch.zeros(1)}, epoch=0)
    assert main([words[0], str(interrupted.path), *words[1:]]) == 1
    assert "prvr train --resume" in capsys.readouterr().err


def test_a_run_that_was_not_trained_here_is_not_advised_to_be_resumed(
    preset: Path, world: Path, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    run.create(load_preset(str(preset)), world)
    with pytest.raises(RunError, match="has no weights 'average'; there are: none yet"):
        run.load_model()
    run.save_weights("last", {"weight": torch.zeros(1)}, epoch=0)
    run.save_checkpoint(1, {"weight": torch.zeros(1)}, {}, {})
    with pytest.raises(RunError, match="has no weights 'average'; there are: last"):
        run.load_model()
