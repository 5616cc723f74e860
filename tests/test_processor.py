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


# Freed memory is kept from here on; ``use`` takes some and frees it.
_KEEPING = """
import ctypes, mmap, sys, tempfile
from prvr import processor
processor.keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def use(mib):
    block = libc.malloc(mib << 20)
    ctypes.memset(block, 1, mib << 20)
    libc.free(block)
def held():
    return processor._held_memory() >> 20
"""


def mib_held(program: str) -> list[int]:
    """What a program prints that begins with ``_KEEPING``."""
    command = [sys.executable, "-c", _KEEPING + program]
    return [int(word) for word in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_kept_memory_is_given_back_beyond_a_share_of_what_could_be_had() -> None:
    kept, within, beyond = mib_held("""
use(200)
print(held())
processor.KeptMemory(share=1.0).limit()
print(held())
processor.KeptMemory(share=1e-9).limit()
print(held())
""")
    assert kept - within < 10
    assert kept - beyond > 150


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_memory_is_given_back_again_only_after_growth() -> None:
    """However little may be kept, a step that takes less than the growth that is looked for is left alone."""
    at_first, grown_little, grown_much = mib_held("""
memory = processor.KeptMemory(share=1e-9)
memory.growth = 300 << 20
for mib in (100, 200, 400):
    use(mib)
    memory.limit()
    print(held())
""")
    assert grown_little - at_first > 150
    assert grown_much - at_first < 50


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's settings")
def test_memory_that_others_come_to_need_is_given_back_after_a_while() -> None:
    kept, still_kept, later = mib_held("""
memory = processor.KeptMemory(share=1.0)
use(200)
memory.limit()
print(held())
memory.share = 1e-9  # as if another process had taken all the rest
memory.limit()
print(held())
memory.look_again_after = 0.0
memory.limit()
print(held())
""")
    assert kept - still_kept < 10
    assert still_kept - later > 150


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what the system tells")
def test_a_mapped_file_is_not_memory_that_can_be_given_back() -> None:
    before, after = mib_held("""
file = tempfile.TemporaryFile()
file.write(bytes(100 << 20))
file.flush()
print(held())
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
touched = sum(mapped[place] for place in range(0, len(mapped), 4096))
print(held())
""")
    assert after - before < 50


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
