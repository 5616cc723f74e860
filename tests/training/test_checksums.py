"""A changed bit in weights or in a checkpoint is refused, not trained on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from prvr.training import Run
from prvr.training.run import RunError


def test_every_changed_bit_in_weights_and_checkpoints_is_refused(tmp_path: Path) -> None:
    run, chance = Run(tmp_path / "run"), random.Random(3)
    tensors = {"weight": torch.randn(40, 7), "bias": torch.zeros(5)}
    run.save_weights("best", tensors, epoch=4, sum_r=31.25)
    run.save_checkpoint(12, tensors, {"step": torch.ones(3)}, {"epoch": 1, "step": 2})
    files = [*(run.path / "weights" / "best").iterdir(), *(run.path / "checkpoints" / "00000012").iterdir()]
    for number in range(60):
        file = files[number % len(files)]
        content = bytearray(file.read_bytes())
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        content[place] ^= 1 << bit
        before = file.read_bytes()
        file.write_bytes(content)
        with pytest.raises(RunError, match="estore it from a copy"):
            run.weights("best") if "weights" in file.parts else run.load_checkpoint()
        file.write_bytes(before)
    assert run.weights("best")[1] == {"epoch": 4, "sum_r": 31.25}
    assert run.load_checkpoint() is not None


def test_a_run_of_an_older_version_has_no_checksums(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.save_weights("best", {"weight": torch.ones(3)}, epoch=4)
    (run.path / "weights" / "best" / "checksums.json").unlink()
    assert run.weights("best")[1] == {"epoch": 4}
