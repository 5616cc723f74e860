"""Two processes at one thing: a run has one trainer at a time, a library any number."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from prvr.files import Busy, exclusive_lock
from prvr.library import Library
from prvr.training import Run
from prvr.worlds import RenderedWorld
from tests.faults.conftest import RATE
from tests.faults.helpers import finish, refusal, start
from tests.library.test_faults import same
from tests.training.test_resume import kill_after_step


def test_a_second_training_in_the_same_folder_is_refused(preset: Path, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--data", world, "--out", out, "--checkpoint-seconds", "0", "--resume")
    first = start("train", preset, *flags, "--backbone-stage.epochs", 2000)
    kill_after_step(first, out, 1, signal.SIGSTOP)  # it holds still, and its folder
    said = refusal(start("train", preset, *flags, "--backbone-stage.epochs", 2000))
    assert f"process {first.pid} on {os.uname().nodename} is training in {out}" in said
    assert "choose another --out" in said
    first.send_signal(signal.SIGCONT)
    first.send_signal(signal.SIGKILL)  # which lets go of the folder
    first.communicate()
    again = start("train", preset, *flags, "--backbone-stage.epochs", 2000)
    kill_after_step(again, out, Run(out).load_checkpoint()[2]["total_steps"] + 1)  # type: ignore[index]
    again.communicate()


def test_a_lock_is_let_go_at_the_end(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path / "lock"), pytest.raises(Busy, match=f"process {os.getpid()}"), exclusive_lock(tmp_path / "lock"):
        pass
    with exclusive_lock(tmp_path / "lock"):
        pass


@pytest.mark.slow
def test_two_commands_that_add_to_one_library(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", rate=RATE)
    both = [start("library", "add", films.folder, "--library", lib.folder) for _ in range(2)]
    for process in both:
        finish(process)
    same(lib, whole)
