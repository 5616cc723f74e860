"""How a model sees pictures fast: in the number type its device multiplies fastest, compiled, with work in flight.

A GPU computes in bfloat16 while the next pictures travel to it. A processor encodes the first pictures of real work in
float32, then tries bfloat16 (if it multiplies that) and int8 (if the extra is installed) on the same pictures, and
stays with the fastest type whose vectors agree with float32's (``choice.py``). Such vectors can be compared (cosine to
float32 at least 0.995), so a library does not record which type was used. Long work on a GPU is compiled, unless the
GPU waits for the decoders anyway; the compiler's results are kept on disk, so that only the first time on a machine is
slow.
"""

from __future__ import annotations

import copy
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.compiler import keep_compiled_code
from prvr.errors import UserError
from prvr.media.encoders.base import Array
from prvr.media.encoders.choice import ENGINE_SETTING, int8_versions, processor_types
from prvr.media.encoders.int8 import Int8Model, Int8Tower, convert_to_int8, converted_model, picture_vectors
from prvr.media.encoders.preparation import PicturePreparation
from prvr.media.encoders.trial import Tower, TypeTrial
from prvr.media.errors import EncoderError

CPU_BATCH, GPU_BATCH = 16, 256
_COMPILE_AFTER = 30 * GPU_BATCH  # pictures; the first compilation takes about a minute, later ones some seconds
_SMOOTHING = 0.1  # of the last batch in that share
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
_PARTS = ("vision_model", "visual_projection")
_log = logging.getLogger("prvr.media")


class PictureEngine:
    """Runs the picture part of an image–text model."""

    def __init__(
        self,
        model: Any,
        preparation: PicturePreparation,
        device: torch.device,
        precision: torch.dtype | None = None,
        compile_after: int = _COMPILE_AFTER,
        name: str = "",
        weights: Callable[[], str] | None = None,
    ):
        """
        Args:
            model: of the ``transformers`` library, in float32 on the device.
            preparation: how pictures become its input.
            device: where it runs.
            precision: type of its numbers, ``torch.int8`` for ONNX Runtime on a processor; None: the fastest.
            compile_after: pictures after which it is compiled, on a GPU.
            name: of the model, for people.
            weights: gives the sha256 of its weights. Without it nothing is kept on disk, and int8 must be asked for.
        """
        self.model, self.preparation, self.device = model, preparation, device
        self.name, self.weights = name, weights
        if device.type == "cuda":  # before the compiler is first used, which would choose a temporary folder
            keep_compiled_code()
        self.batch = CPU_BATCH if device.type == "cpu" else GPU_BATCH
        self.precision = torch.float32
        self.compile_after, self.seen, self.compiled = compile_after, 0, False
        self._behind = 1.0  # share of batches that were not ready when they were wanted: what bounds the work
        self._parts = [getattr(model, name) for name in _PARTS if hasattr(model, name)]
        self._tower: Tower | None = None  # what runs instead of the model, on a processor
        self._trial: TypeTrial | None = None  # while types are compared
        self._asked = precision
        self._next: torch.dtype | None = None  # a type to use from the next picture on: opening one may take a while
        if precision is not None:
            self._next = precision
        elif self._parts:
            self._choose()
        if device.type != "cpu" and self._next is not None:
            self._use(self._next)

    @property
    def types(self) -> tuple[torch.dtype, ...]:
        """The types of numbers that torch may compute in."""
        return fast_types(self.device)

    @cached_property
    def mark(self) -> str:
        """What a recipe must say of a type that was asked for: nothing where its vectors agree with float32's."""
        if self._asked != torch.int8 or self.weights is None:
            return ""
        return self._converted(self.weights()).mark

    def _choose(self) -> None:
        """The fastest type: known for a GPU; for a processor remembered, or found with the first pictures."""
        types = self.types
        if self.device.type == "cuda":
            self._next = types[-1]
        elif self.device.type == "cpu":
            names = [name for name, each in TYPES.items() if each in types]
            names += ["int8"] if self.weights is not None and int8_versions() else []
            if len(names) > 1:
                self._trial = TypeTrial(self.name, tuple(names), self.weights)

    def _use(self, precision: torch.dtype) -> None:
        self.precision, self._next = precision, None
        if self.device.type == "cpu":
            self._tower = self._open(precision)
        else:
            for part in self._parts:
                part.to(precision)

    def _use_next(self, precision: torch.dtype) -> None:
        """Use a type from now on; one that nobody asked for gives way to float32 where it cannot be opened."""
        try:
            self._use(precision)
        except (UserError, OSError) as problem:
            if self._asked is not None:
                raise
            _log.warning(f"Pictures are encoded in fp32: {problem}")
            self._use(torch.float32)

    def _open(self, precision: torch.dtype) -> Tower | None:
        """What computes in a type on a processor; None: the model itself, which stays in float32."""
        if precision == torch.float32:
            return None
        if precision == torch.int8 and self.weights is not None:
            return Int8Tower(self._converted(self.weights()).path)
        if precision == torch.int8:
            with tempfile.TemporaryDirectory() as folder:
                convert_to_int8(self.model, self.preparation, Path(folder) / "int8.onnx")
                return Int8Tower(Path(folder) / "int8.onnx")
        other = copy.copy(self.model)
        other._modules = dict(self.model._modules)
        for name in _PARTS:
            if hasattr(other, name):
                setattr(other, name, copy.deepcopy(getattr(other, name)).to(precision))
        return lambda pixels: picture_vectors(other, pixels.to(precision)).float()

    def _converted(self, weights: str) -> Int8Model:
        try:
            return converted_model(self.model, self.preparation, weights)
        except (UserError, OSError):
            raise
        except Exception as problem:  # the exporter and the quantiser fail in many ways
            first = str(problem).strip().partition("\n")[0] or type(problem).__name__
            raise EncoderError(
                f"{self.name} cannot be converted to int8 ({first}): set {ENGINE_SETTING} to auto or fp32."
            ) from problem

    @torch.inference_mode()
    def start(self, pictures: NDArray[np.uint8]) -> Callable[[], Array]:
        """Begin with pictures (N, H, W, 3), at most a batch; the result waits for their vectors (N, D)."""
        trial = self._trial
        if trial is not None and (choice := trial.recalled) is not None:
            trial, self._trial, self._next = None, None, TYPES[choice.chosen]
        if self._next is not None:
            self._use_next(self._next)
        began = time.perf_counter()
        if self.device.type == "cuda" and not self.compiled and self.seen >= self.compile_after and self._behind > 0.5:
            self._compile()
        self.seen += len(pictures)
        here = torch.from_numpy(pictures)
        if self.device.type == "cuda":
            here = here.pin_memory().to(self.device, non_blocking=True)
        found = self._compiled_or_not(here).float()
        if self.device.type != "cuda":
            vectors: Array = found.numpy()
            if trial is not None and len(pictures) == self.batch:
                self._compare(trial, pictures, vectors, time.perf_counter() - began)
            return lambda: vectors
        host = torch.empty(found.shape, pin_memory=True)
        host.copy_(found, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

        def wait() -> Array:
            self._behind += _SMOOTHING * ((not done.query()) - self._behind)  # type: ignore[no-untyped-call]
            done.synchronize()
            return host.numpy()

        return wait

    def _compiled_or_not(self, pictures: Tensor) -> Tensor:
        """The vectors (N, D). Where the compiler fails, for example for want of a C compiler, nothing is compiled."""
        if not self.compiled:
            return self._vectors(pictures)
        try:
            return self._vectors(pictures)
        except RuntimeError as problem:  # which torch's compiler raises for whatever went wrong inside it
            if "compiler" not in type(problem).__name__.lower() and "torch._dynamo" not in type(problem).__module__:
                raise
            first = str(problem).strip().splitlines()[0]
            warnings.warn(f"pictures are encoded without compilation, which failed: {first}", stacklevel=3)
            self._parts[0]._compiled_call_impl = None
            self.compiled, self.compile_after = False, sys.maxsize
            return self._vectors(pictures)

    def _vectors(self, pictures: Tensor) -> Tensor:
        pixels = self.preparation.pixels(pictures)
        if self._tower is not None:
            return self._tower(pixels)
        count = len(pixels)
        if self.compiled and count < self.batch:  # which was compiled for one size
            pixels = torch.cat([pixels, pixels.new_zeros(self.batch - count, *pixels.shape[1:])])
        return picture_vectors(self.model, pixels.to(self.precision))[:count]

    def _compare(self, trial: TypeTrial, pictures: NDArray[np.uint8], vectors: Array, seconds: float) -> None:
        """Note what float32 made of a batch; after some of them, try the other types on the same pictures."""
        if trial.note(pictures, vectors, seconds):
            choice = trial.decide(self.preparation, lambda name: self._open(TYPES[name]))
            self._trial, self._next = None, TYPES[choice.chosen]

    def _compile(self) -> None:
        if self._parts:
            self._parts[0].compile(dynamic=False)
        self.compiled = True


def fast_types(device: torch.device) -> tuple[torch.dtype, ...]:
    """The types of numbers whose matrices a device multiplies itself."""
    if device.type == "cuda":
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        bf16 = device.type == "cpu" and "bf16" in processor_types()
    return (torch.float32, torch.bfloat16) if bf16 else (torch.float32,)
