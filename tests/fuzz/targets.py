"""The table of parsers: for each a function that reads bytes, the errors it may raise, and documents that are right.

A target that raises anything else, or never ends, has a fault. Files are written to a scratch folder, in memory where
the system has such a place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import (
    dataset_targets,
    library_targets,
    media_targets,
    server_targets,
    training_targets,
)
from tests.fuzz.target import Target

_ROOMS = (dataset_targets, media_targets, training_targets, library_targets, server_targets)
TARGETS: dict[str, Target] = {target.name: target for room in _ROOMS for target in room.TARGETS}
SEEDS = Path(__file__).parent / "seeds"

__all__ = ["SEEDS", "TARGETS", "Opened", "open_target"]


@dataclass(frozen=True)
class Opened:
    """A target with its scratch folder made ready."""

    target: Target
    read: Callable[[bytes], None]

    def __call__(self, data: bytes) -> None:
        """Read an input. Raises only what the target must not raise."""
        try:
            self.read(data)
        except self.target.allowed as error:
            said = str(error)  # an error that cannot be said is one more fault
            if not said.strip():
                raise AssertionError(f"{type(error).__name__} says nothing") from error


def open_target(name: str, scratch: Path) -> Opened:
    target = TARGETS[name]
    scratch.mkdir(parents=True, exist_ok=True)
    return Opened(target, target.prepare(scratch))
