"""How a model sees pictures fast: in the number type its device multiplies fastest, compiled, with work in flight.

A GPU computes in bfloat16 while the next pictures travel to it. A processor that multiplies bfloat16 tries both types
on the first batches of real work, and stays with the faster one. Vectors of both types can be compared (cosine to
float32 above 0.995), so a library does not record which was used. Long work on a GPU is compiled; the compiler's
results are kept on disk, so that only the first time on a machine is slow.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.compiler import keep_compiled_code
from prvr.media.encoders.base import Array
from prvr.media.encoders.preparation import PicturePreparation

CPU_BATCH, GPU_BATCH = 16, 256
_COMPILE_AFTER = 30 * GPU_BATCH  # pictures; the first compilation takes about a minute, later ones some seconds
_TRIES = 2  # batches of each type, of which the last is timed


class PictureEngine:
    """Runs the picture part of an image–text model."""

    def __init__(
        self,
        model: Any,
        preparation: PicturePreparation,
        device: torch.device,
        precision: torch.dtype | None = None,
        compile_after: int = _COMPILE_AFTER,
    ):
        """
        Args:
            model: of the ``transformers`` library, in float32 on the device.
            preparation: how pictures become its input.
            device: where it runs.
            precision: type of its numbers; None: the fastest.
            compile_after: pictures after which it is compiled, on a GPU.
        """
        self.model, self.preparation, self.device = model, preparation, device
        if device.type == "cuda":  # before the compiler is first used, which would choose a temporary folder
            keep_compiled_code()
        self.batch = CPU_BATCH if device.type == "cpu" else GPU_BATCH
        self.precision = torch.float32
        self.compile_after, self.seen, self.compiled = compile_after, 0, False
        self._parts = [getattr(model, name) for name in ("vision_model", "visual_projection") if hasattr(model, name)]
        self._laps: dict[torch.dtype, list[float]] | None = None  # seconds of batches, while types are compared
        if precision is not None:
            self._use(precision)
        elif self._parts and device.type == "cuda":
            self._use(fast_types(device)[-1])
        elif self._parts and len(types := fast_types(device)) > 1:
            self._laps = {each: [] for each in types}

    @property
    def types(self) -> tuple[torch.dtype, ...]:
        """The types of numbers that it may compute in."""
        return fast_types(self.device)

    def _use(self, precision: torch.dtype) -> None:
        self.precision = precision
        for part in self._parts:
            part.to(precision)

    @torch.inference_mode()
    def start(self, pictures: NDArray[np.uint8]) -> Callable[[], Array]:
        """Begin with pictures (N, H, W, 3), at most a batch; the result waits for their vectors (N, D)."""
        began = time.perf_counter()
        if self.device.type == "cuda" and not self.compiled and self.seen >= self.compile_after:
            self._compile()
        self.seen += len(pictures)
        here = torch.from_numpy(pictures)
        if self.device.type == "cuda":
            here = here.pin_memory().to(self.device, non_blocking=True)
        found = self._compiled_or_not(here).float()
        if self.device.type != "cuda":
            vectors: Array = found.numpy()
            if self._laps is not None and len(pictures) == self.batch:
                self._compare(time.perf_counter() - began)
            return lambda: vectors
        host = torch.empty(found.shape, pin_memory=True)
        host.copy_(found, non_blocking=True)
        done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

        def wait() -> Array:
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
        count = len(pixels)
        if self.compiled and count < self.batch:  # which was compiled for one size
            pixels = torch.cat([pixels, pixels.new_zeros(self.batch - count, *pixels.shape[1:])])
        output = self.model.get_image_features(pixel_values=pixels.to(self.precision))
        # depending on its version, the library returns a tensor or an object that holds it
        return (output if isinstance(output, Tensor) else output.pooler_output)[:count]

    def _compare(self, seconds: float) -> None:
        """Note what a batch took; after some of each type, decide."""
        assert self._laps is not None
        self._laps[self.precision].append(seconds)
        waiting = [precision for precision, laps in self._laps.items() if len(laps) < _TRIES]
        if waiting:
            self._use(waiting[0])
            return
        laps, self._laps = self._laps, None
        self._use(min(laps, key=lambda precision: laps[precision][-1]))

    def _compile(self) -> None:
        if self._parts:
            self._parts[0].compile(dynamic=False)
        self.compiled = True


def fast_types(device: torch.device) -> tuple[torch.dtype, ...]:
    """The types of numbers whose matrices a device multiplies itself."""
    if device.type == "cuda":
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        bf16 = device.type == "cpu" and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return (torch.float32, torch.bfloat16) if bf16 else (torch.float32,)
