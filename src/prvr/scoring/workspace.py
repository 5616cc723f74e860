"""Memory that tiles of scores write into again and again.

A fresh tensor of some megabytes costs a CPU a page fault for each of its pages, which is as slow as the arithmetic that
fills it. A workspace keeps a few buffers instead; a GPU's allocator does the same by itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LARGEST_KEPT = 1 << 26  # bytes; larger buffers (one very long video) are not kept


class Workspace:
    """Named buffers of one thread: two threads must not share a workspace."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def empty(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor. It is overwritten by the next one of its name."""
        count, key = torch.Size(shape).numel(), (name, like.dtype)
        if like.device.type != "cpu" or count * like.element_size() > _LARGEST_KEPT:
            return like.new_empty(shape)
        if key not in self._buffers or self._buffers[key].numel() < count:
            self._buffers[key] = like.new_empty(count)
        return self._buffers[key][:count].view(shape)
