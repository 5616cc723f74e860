"""What this machine's processor can do, and how its memory is kept between the steps of long work."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prvr.processes import available_memory, usable_memory

# Settings of glibc's ``mallopt`` (malloc.h).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_PAD = 64 << 20  # bytes asked of the system beyond what is needed
_MOST_HELD = 0.6  # of the memory that this process holds or could still take
_GROWTH = 1 / 16  # of the machine's memory: by so much a process has grown before it is looked at again …
_LOOK_EVERY_SECONDS = 10.0  # … or this much later


def has_bf16() -> bool:
    """Whether torch multiplies bfloat16 faster than float32 here, for which the processor needs instructions."""
    import torch  # imported here: whoever asks for something else does without

    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if is_x86():
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_vnni() -> bool:
    """Whether this processor adds products of 8 bits in 32, without which int8 is not faster."""
    import torch

    return not is_x86() or torch.cpu._is_vnni_supported()


def is_x86() -> bool:
    """Whether this is a processor of Intel's family; only of those some lack VNNI."""
    return platform.machine().lower() in ("x86_64", "amd64")


def cpu_name() -> str:
    """The processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def keep_freed_memory() -> bool:
    """From now on, keep memory that this process frees, for its next use. Returns whether the system can do that.

    A training step frees gigabytes that the next one needs again. glibc gives large blocks back to the system at once,
    which then clears them page by page: half of a step's time. What is kept grows slowly, as blocks of many sizes do
    not fill each other's places: call ``KeptMemory.limit`` now and then.
    """
    mallopt = _c_function("mallopt")
    if mallopt is None:
        return False
    never = -1
    return all(mallopt(name, value) for name, value in ((_TRIM_THRESHOLD, never), (_TOP_PAD, _PAD), (_MMAP_MAX, 0)))


class KeptMemory:
    """Freed memory that this process keeps, up to a share of the memory that it holds or could still take.

    What other processes hold they cannot give: several trainings on one machine each keep less, so that all fit.
    """

    def __init__(self, share: float = _MOST_HELD):
        self.share = share
        self.growth = _GROWTH * usable_memory()
        self.look_again_at = 0.0  # bytes held
        self.look_again_after = 0.0  # seconds of the clock: others may have come to need memory meanwhile

    def limit(self) -> None:
        """Give freed memory back to the system if this process has come to hold more than its share. 25 µs mostly."""
        trim = _c_function("malloc_trim")
        if trim is None:
            return
        held, now = _held_memory(), time.monotonic()
        if held < self.look_again_at and now < self.look_again_after:
            return
        if held > self.share * (held + available_memory()):
            trim(0)
            held = _held_memory()
        self.look_again_at, self.look_again_after = held + self.growth, now + _LOOK_EVERY_SECONDS


def _c_function(name: str) -> Callable[..., int] | None:
    """A function of glibc; None on other systems and with other C libraries."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


def _held_memory() -> int:
    """Bytes of memory that this process alone holds, without files that it maps."""
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
