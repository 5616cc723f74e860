"""What the processor can do, and memory that is kept between steps."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from prvr import processor
from prvr.processor import has_bf16, keep_freed_memory

# Frees and takes a large block again, and counts the pages that the system had to hand out for that.
_SECOND_BLOCK = """
import ctypes, resource, sys
from prvr.processor import keep_freed_memory
kept = sys.argv[1] == "keep" and keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
size, taken = 200 << 20, []
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    libc.free(block)
    taken.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(int(kept), taken[1])
"""


def pages_of_a_second_block(mode: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", _SECOND_BLOCK, mode], capture_output=True, text=True, check=True)
    kept, pages = done.stdout.split()
    return kept == "1", int(pages)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_freed_memory_is_used_again() -> None:
    kept, pages = pages_of_a_second_block("keep")
    if not kept:
        pytest.skip("another C library")
    assert pages < 100
    assert pages_of_a_second_block("give back")[1] > 10 * max(pages, 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_kept_memory_is_given_back_beyond_a_share_of_the_machines() -> None:
    program = """
import ctypes
from prvr import processor
processor.keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
block = libc.malloc(200 << 20)
ctypes.memset(block, 1, 200 << 20)
libc.free(block)
held = processor._held_memory()
processor.limit_kept_memory(share=1.0)
print((held - processor._held_memory()) >> 20)
processor.limit_kept_memory(share=1e-9)
print((held - processor._held_memory()) >> 20)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    within, beyond = map(int, done.stdout.split())
    assert within < 10
    assert beyond > 150


def test_other_systems_keep_their_own_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory()


def test_bf16_needs_its_own_instructions_not_only_avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "is_x86", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for supported in (False, True):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda answer=supported: answer)
        assert has_bf16() is supported
