"""Measuring time and memory."""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Measurement:
    """One measured piece of work."""

    group: str
    work: str
    seconds: float  # median
    rate: float | None = None
    unit: str = ""
    share: float | None = None  # of the machine's limit, measured in the same run
    memory: int | None = None  # bytes at the peak, beyond what was there before
    baseline: float | None = None  # seconds of the naive form of the same work
    note: str = ""

    @property
    def speedup(self) -> float | None:
        return None if self.baseline is None else self.baseline / self.seconds


@dataclass(frozen=True)
class Timed:
    """What a timer measured."""

    seconds: float  # median
    memory: int  # bytes at the peak, beyond what was in use before


class DeviceTimer:
    """Times work on a device: the median of repeats after a warm-up. It waits for the device before it stops."""

    def __init__(self, device: torch.device):
        self.device = device

    def __call__(self, work: Callable[[], Any], repeats: int = 5, warm_up: int = 1) -> Timed:
        before = self._reset_memory()
        for _ in range(warm_up):
            work()
        self._finish()
        laps = []
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            self._finish()
            laps.append(time.perf_counter() - started)
        return Timed(statistics.median(laps), max(0, self._peak_memory() - before))

    def _finish(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _reset_memory(self) -> int:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return torch.cuda.memory_allocated(self.device)
        with contextlib.suppress(OSError):  # where it is not allowed, the peak is that of the whole process
            _CLEAR.write_text("5")  # sets it back to what is resident now
        return _status("VmRSS")

    def _peak_memory(self) -> int:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else _status("VmHWM")


class MemoryPeak:
    """The most memory that this process and those it starts use within a ``with`` statement."""

    def __init__(self, device: torch.device):
        self.device = device
        self.bytes = self.gpu = self.processes = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryPeak:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._end.set()
        self._thread.join()
        if self.device.type == "cuda":
            self.gpu = torch.cuda.max_memory_allocated(self.device)

    def _watch(self) -> None:
        pause = 0.2
        while not self._end.wait(pause):
            began = time.perf_counter()
            sizes = [_own_memory(process) for process in (os.getpid(), *_children(os.getpid()))]
            self.bytes, self.processes = max(self.bytes, sum(sizes)), max(self.processes, len(sizes))
            # A process waits while its memory is counted: five looks a second once cost a quarter of what was measured.
            pause = max(1.0, 100 * (time.perf_counter() - began))


def _children(process: int) -> list[int]:
    """The processes that a process has started, and those that they have started."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [process]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


def _own_memory(process: int) -> int:
    """Bytes of memory, of which shared ones count in part; 0 where the system does not say."""
    for file, field in (("smaps_rollup", "Pss"), ("status", "VmRSS")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(f"/proc/{process}/{file}").read_text().splitlines():
                if line.startswith(f"{field}:"):
                    return int(line.split()[1]) * 1024
    return 0


def _status(field: str) -> int:
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0
