"""How a gallery keeps its vectors: full, half or brain floats, or eight-bit integers with a scale for each vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from prvr.tokens import TensorRecord

Storage: TypeAlias = Literal["fp64", "fp32", "fp16", "bf16", "int8"]
STORAGE: tuple[Storage, ...] = get_args(Storage)
DTYPES: dict[Storage, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int8": torch.int8,
}
_LARGEST = 127.0


@dataclass(frozen=True)
class Vectors(TensorRecord):
    """Vectors as they are stored. An eight-bit vector is ``values · scale``; the others have no scale."""

    values: Tensor  # (…, D)
    scale: Tensor | None = None  # (…) float32

    @staticmethod
    def store(vectors: Tensor, storage: Storage) -> Vectors:
        """Keep vectors in a storage type.

        >>> Vectors.store(torch.tensor([[0.6, -0.8]]), "int8").values
        tensor([[  95, -127]], dtype=torch.int8)
        """
        if storage not in DTYPES:
            raise ValueError(f"unknown storage {storage!r}; there are: {', '.join(STORAGE)}")
        if storage == "fp16" and bool((vectors.abs() > torch.finfo(torch.float16).max).any()):
            raise ValueError("vectors are too long for fp16: keep them as bf16, int8 or fp32")
        return Vectors.store_unit(vectors, storage)

    @staticmethod
    def store_unit(vectors: Tensor, storage: Storage) -> Vectors:
        """``store`` for unit vectors, which fit every type: nothing waits for the device."""
        if storage != "int8":
            return Vectors(vectors.to(DTYPES[storage]))
        vectors = vectors.float()
        largest = vectors.abs().amax(-1)
        scale = torch.where(largest > 0, largest / _LARGEST, 1.0)
        return Vectors((vectors / scale[..., None]).round().to(torch.int8), scale)

    def restore(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The vectors as plain floats; not a copy where they are plain floats already."""
        floats = self.values.to(dtype)
        return floats if self.scale is None else floats.mul_(self.scale[..., None].to(dtype))

    def __getitem__(self, rows: slice | Tensor) -> Vectors:
        return Vectors(self.values[rows], None if self.scale is None else self.scale[rows])

    def take(self, rows: Tensor) -> Vectors:
        """Copies of chosen vectors, by their numbers (N,)."""
        taken = self.values.index_select(0, rows)
        return Vectors(taken, None if self.scale is None else self.scale.index_select(0, rows))

    def flat(self) -> Vectors:
        """One axis of vectors, (N, D)."""
        return Vectors(self.values.flatten(0, -2), None if self.scale is None else self.scale.flatten())

    @property
    def shape(self) -> torch.Size:
        return self.values.shape


def storage_of(vectors: Vectors) -> Storage:
    return next(name for name, dtype in DTYPES.items() if dtype == vectors.values.dtype)
