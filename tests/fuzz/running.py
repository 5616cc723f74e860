"""Drive many inputs through a target, and keep those that show a fault."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.mutation import mutate
from tests.fuzz.targets import SEEDS, Opened, open_target

SECONDS = 20.0  # that one input may take on a busy machine


class Hang(BaseException):
    """An input that does not come to an end; no parser catches it."""


@dataclass
class Outcome:
    """What became of a run."""

    inputs: int = 0
    faults: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # by kind: what it said, and the first input


@dataclass(frozen=True)
class Fault:
    """An error that a target does not declare: what and where, and what it said."""

    kind: str
    said: str


def numbered_input(name: str, documents: list[bytes], seed: int, number: int) -> bytes:
    """The same bytes for the same name, seed and number."""
    return mutate(Random(f"{name} {seed} {number}"), documents)


def known_seeds(name: str) -> list[Path]:
    """Inputs that once showed a fault."""
    return sorted((SEEDS / name).glob("*.bin"))


def drive(name: str, inputs: int, seed: int, first: int = 0) -> Outcome:
    """Run numbered inputs, seeds first. Faults are gathered, one for each kind."""
    found = Outcome()
    with scratch() as folder:
        target = open_target(name, folder)
        documents = [*target.target.documents, *(path.read_bytes() for path in known_seeds(name))]
        for number in range(first, first + inputs):
            data = numbered_input(name, documents, seed, number)
            found.inputs += 1
            shown = fault(target, data)
            if shown is not None:
                found.faults.setdefault(shown.kind, (shown.said, data))
    return found


def fault(target: Opened, data: bytes) -> Fault | None:
    """What an input shows, or None."""
    try:
        with limited(SECONDS):
            target(data)
    except (Exception, Hang) as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        ours = [frame for frame in frames if f"{os.sep}prvr{os.sep}" in frame.filename] or frames
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return Fault(f"{type(problem).__name__} at {where}", ascii(str(problem))[:200])
    return None


def keep(name: str, data: bytes) -> Path:
    """Store an input among the seeds."""
    path = SEEDS / name / f"{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder to write inputs to, in memory where that can be."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="prvr-fuzz-", dir=memory if os.access(memory, os.W_OK) else None) as place:
        yield Path(place)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise ``Hang`` if the block takes longer; on a system without timers it may."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
