"""A training that is asked to stop saves first, and its exit code says which signal asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from prvr.cli.errors import guarded
from prvr.training.interrupt import watch_interrupt
from tests.training.trainings import Training

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM for other processes")
EXIT_CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.fixture(autouse=True)
def _answers_of_a_new_process() -> Iterator[None]:
    """Other tests of the same process may have left theirs: a Ray cluster that they start does."""
    answers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, answer) for number, answer in answers.items()}
    yield
    for number, answer in before.items():
        signal.signal(number, answer)


@pytest.mark.parametrize(("number", "code"), EXIT_CODES)
def test_the_exit_code_names_the_signal(number: signal.Signals, code: int) -> None:
    def train(words: list[str]) -> int:
        with watch_interrupt() as stop:
            signal.raise_signal(number)
            assert stop.requested
            raise stop

    assert guarded(train, []) == code


@pytest.mark.parametrize(("number", "code"), EXIT_CODES)
def test_the_second_signal_ends_at_once(number: signal.Signals, code: int) -> None:
    def train(words: list[str]) -> int:
        with watch_interrupt():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(number)
        raise AssertionError("the second signal did not interrupt")

    assert guarded(train, []) == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_the_command_line_the_second_signal_is_a_keyboard_interrupt(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with watch_interrupt():
        signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_sigterm_keeps_the_step_of_a_training(preset: Path, world: Path, tmp_path: Path) -> None:
    training = Training(preset, world, tmp_path / "run", "--checkpoint-seconds", "0")
    training.signal_after_step(4, signal.SIGTERM)
    assert training.wait() == 143, training.output
    assert "--resume" in training.output
    assert "Traceback" not in training.output
