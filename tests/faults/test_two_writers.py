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
from tests.faults.helpers import finish, start
from tests.library.store.test_faults import same
from tests.training.trainings import Training


@pytest.mark.slow
def test_a_second_training_in_the_same_folder_is_refused(preset: Path, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--checkpoint-seconds", "0", "--resume", "--backbone-stage.epochs", "2000")
    first = Training(preset, world, out, *flags)
    first.signal_after_step(1, signal.SIGSTOP)  # it holds still, and keeps its folder locked
    second = Training(preset, world, out, *flags)
    assert second.wait() == 1
    assert f"process {first.process.pid} on {os.uname().nodename} is training in {out}" in second.output
    assert "choose another --out" in second.output
    assert "Traceback" not in second.output
    first.signal(signal.SIGCONT)
    first.signal(signal.SIGKILL)  # which frees the folder
    assert first.wait() == -signal.SIGKILL
    again = Training(preset, world, out, *flags)
    again.signal_after_step(Run(out).load_checkpoint()[2]["total_steps"] + 1)  # type: ignore[index]
    assert again.wait() == -signal.SIGKILL


def test_a_lock_is_let_go_at_the_end(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive_lock(lock), pytest.raises(Busy, match=f"process {os.getpid()}"), exclusive_lock(lock):
        pass
    with exclusive_lock(lock):
        pass


@pytest.mark.slow
def test_two_commands_that_add_to_one_library(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    both = [start("library", "add", films.folder, "--library", lib.folder) for _ in range(2)]
    for process in both:
        finish(process)
    same(lib, whole)
