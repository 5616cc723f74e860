"""``prvr train`` in processes that can be killed, forked from one that has imported everything already.

A fresh interpreter takes seconds to import torch. The fork server does it once for all trainings of a test module.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path

TIMEOUT = 120.0


def fork_server() -> ForkServerContext:
    """Starts processes that have imported torch and ``prvr train`` already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["prvr.cli.train", "torch.utils.tensorboard", __name__])
    return context


def _run(arguments: list[str], log: Path, environment: Mapping[str, str]) -> None:
    import torch

    from prvr.cli import main

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(environment, COLUMNS="200")
    sys.argv = ["prvr", *arguments]
    torch.set_num_threads(1)  # equal runs must add up in the same order
    code = main(arguments)
    sys.stdout.flush()
    sys.exit(code)


class Training:
    """One ``prvr train`` process."""

    def __init__(self, preset: Path, world: Path, out: Path, *flags: str, environment: Mapping[str, str] | None = None):
        self.out = out
        self.log = out.with_name(f"{out.name}-{time.monotonic_ns()}.log")
        arguments = ["train", str(preset), "--data", str(world), "--out", str(out), *flags]
        self.process = fork_server().Process(target=_run, args=(arguments, self.log, environment or {}))
        self.process.start()

    @property
    def output(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def signal_after_step(self, step: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal as soon as a checkpoint of at least that step is there."""
        deadline = time.monotonic() + TIMEOUT
        while not any(int(p.name) >= step for p in (self.out / "checkpoints").glob("[0-9]*")):
            assert self.process.is_alive(), self.output
            assert time.monotonic() < deadline, "no checkpoint appeared"
            time.sleep(0.002)
        self.signal(number)

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Wait for the end; returns the exit code, negative for a signal."""
        self.process.join(TIMEOUT)
        assert self.process.exitcode is not None, f"still running after {TIMEOUT} s: {self.output}"
        return self.process.exitcode

    def finish(self) -> str:
        """Wait for a good end; returns what was printed."""
        assert self.wait() == 0, self.output
        return self.output
