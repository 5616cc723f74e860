"""Memory that tiles write into again and again.

A fresh tensor of some megabytes costs a CPU a page fault for each of its pages, which is as slow as the arithmetic that
fills it. Each thread keeps a few buffers instead; a GPU's allocator does the same by itself. Buffers far larger than a
tile's (one very long video) are not kept.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

_LARGEST_KEPT = 1 << 26  # bytes


class _Kept(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[tuple[str, torch.dtype], Tensor] = {}


_kept = _Kept()


def scratch(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised tensor. It is overwritten by the next one of its name on the same thread."""
    buffers, count, key = _kept.buffers, torch.Size(shape).numel(), (name, like.dtype)
    if like.device.type != "cpu" or count * like.element_size() > _LARGEST_KEPT:
        return like.new_empty(shape)
    if key not in buffers or buffers[key].numel() < count:
        buffers[key] = like.new_empty(count)
    return buffers[key][:count].view(shape)
