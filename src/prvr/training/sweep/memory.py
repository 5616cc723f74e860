"""How many trainings fit on one GPU, measured while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from prvr.processes import usable_cores

_MOST = 4  # trainings at once that ``auto`` goes up to: each also keeps a core of the machine busy
_SPARE = 1.5  # times what one training has used so far must be free for the next: later phases need more


class _Running(Protocol):
    @property
    def epochs(self) -> int: ...


def gpu_memory(device: torch.device) -> Callable[[], int] | None:
    """What reads the free bytes of a GPU; None for a CPU."""
    return (lambda: torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


class MemoryFit:
    """Lets another training start as long as the GPU has room for it.

    The next one starts when those that run have each ended an epoch, so that what they need is known, and there is room
    for one and a half more. If one runs out of memory all the same, fewer run from then on.

    Args:
        free: reads the free bytes; None: a CPU, which trains one at a time.
    """

    def __init__(self, free: Callable[[], int] | None):
        self.free = free
        self.before = 0 if free is None else free()
        self.most = 1 if free is None else min(_MOST, usable_cores())
        self.largest = 0.0  # bytes of one training, as far as it is known

    def has_room(self, running: Sequence[_Running]) -> bool:
        """Whether another training may start beside these."""
        if not running:
            return True
        if self.free is None or len(running) >= self.most or any(training.epochs == 0 for training in running):
            return False
        left = self.free()
        self.largest = max(self.largest, (self.before - left) / len(running))
        return left > _SPARE * self.largest

    def ran_out(self, others: int) -> bool:
        """Note that a training ran out of memory beside ``others``; whether fewer at once may help."""
        self.most = max(1, min(self.most, others))
        return others > 0


class FixedNumber:
    """Lets a given number of trainings run at once."""

    def __init__(self, number: int):
        self.most = number

    def has_room(self, running: Sequence[_Running]) -> bool:
        return len(running) < self.most

    def ran_out(self, others: int) -> bool:
        """Fewer at once, as in ``MemoryFit``."""
        self.most = max(1, min(self.most, others))
        return others > 0
