"""A power cut while a run is saved: the last checkpoint that was written is there, whole."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from prvr.training import Run
from tests.library.store.power import record

_WORK = """
import os, sys
import torch
from pathlib import Path
from prvr.training import Run
run = Run(Path(sys.argv[1]) / "run")
for step in (1, 2, 3):
    tensors = {"weight": torch.full((300,), float(step))}
    run.save_weights("best", tensors, epoch=step)
    run.save_checkpoint(step, tensors, tensors, {"step": step})
    os.write(1, str(step).encode())
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_last_checkpoint_survives_a_power_cut(tmp_path: Path) -> None:
    chance, saved = random.Random(3), 0
    for number, (disk, said) in enumerate(record(_WORK, tmp_path / "disk")):
        saved = saved if said is None else int(said)
        if said is None and chance.random() > 0.2:
            continue
        for share in (0.0, 0.5, 1.0):
            place = tmp_path / "after"
            disk.cut(place, seed=number, share=share)
            run = Run(place / "run")
            run.clean_up()
            checkpoint = run.load_checkpoint()
            found = 0 if checkpoint is None else checkpoint[2]["step"]
            assert saved <= found <= saved + 1
            assert checkpoint is None or checkpoint[0]["weight"].tolist() == [float(found)] * 300
            if saved:
                tensors, about = run.weights("best")
                assert about["epoch"] >= saved
                assert tensors["weight"].tolist() == [float(about["epoch"])] * 300
            shutil.rmtree(place)
