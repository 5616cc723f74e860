"""Encode many sentences at once: in batches of similar length, and on a GPU in bfloat16, as pictures are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch

_Result = TypeVar("_Result")
_CPU_BATCH, _GPU_BATCH = 64, 512
_FEW = 256  # sentences: queries are encoded in float32, also many at once; a film's lines are not


def encode_in_batches(
    texts: Sequence[str], device: torch.device, encode: Callable[[Sequence[str]], Sequence[_Result]]
) -> Iterator[_Result]:
    """One result for each text, in their order. ``encode`` is called with texts of similar length: less padding."""
    size = _CPU_BATCH if device.type == "cpu" else _GPU_BATCH
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    found: dict[int, _Result] = {}
    with torch.inference_mode(), _arithmetic(device, len(texts)):
        for first in range(0, len(order), size):
            numbers = order[first : first + size]
            found.update(zip(numbers, encode([texts[number] for number in numbers]), strict=True))
    return (found[number] for number in range(len(texts)))


def _arithmetic(device: torch.device, count: int) -> AbstractContextManager[object]:
    if device.type == "cuda" and count > _FEW and torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()
