"""How a model sees pictures fast: in the number type its device multiplies fastest, compiled, with work in flight.

A GPU computes in bfloat16 while the next pictures travel to it. A processor encodes the first pictures of real work in
float32 by torch, then tries the other engines it has (OpenVINO in float32, bfloat16 and int8, if it is installed) on
the same pictures, and stays with the fastest whose vectors agree (``choice.py``). Such vectors can be compared (cosine
at least 0.995), so a library does not record which engine was used. Long work on a GPU is compiled, unless the GPU
waits for the decoders anyway; the compiler's results are kept on disk, so only the first time on a machine is slow.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.compiler import keep_compiled_code
from prvr.errors import UserError
from prvr.media.encoders.base import Array
from prvr.media.encoders.choice import ENGINE_SETTING, ROUNDED, EngineName, openvino_installed, processor_engines
from prvr.media.encoders.openvino_tower import (
    ConvertedModel,
    OpenVinoTower,
    convert,
    converted_form,
    converted_model,
)
from prvr.media.encoders.picture_part import picture_parts, picture_vectors, with_own_picture_part
from prvr.media.encoders.preparation import PicturePreparation
from prvr.media.encoders.trial import EngineTrial, Tower
from prvr.media.errors import EncoderError

CPU_BATCH, GPU_BATCH = 16, 256
_COMPILE_AFTER = 30 * GPU_BATCH  # pictures; the first compilation takes about a minute, later ones some seconds
_SMOOTHING = 0.1  # of the last batch in that share
_log = logging.getLogger("prvr.media")


class PictureEngine:
    """Runs the picture part of an image–text model."""

    def __init__(
        self,
        model: Any,
        preparation: PicturePreparation,
        device: torch.device,
        engine: EngineName = "auto",
        compile_after: int = _COMPILE_AFTER,
        name: str = "",
        weights: Callable[[], str] | None = None,
    ):
        """
        Args:
            model: of the ``transformers`` library, in float32 on the device.
            preparation: how pictures become its input.
            device: where it runs.
            engine: type of its numbers, ``torch`` for float32 without OpenVINO; ``auto``: the fastest.
            compile_after: pictures after which it is compiled, on a GPU.
            name: of the model, for people.
            weights: gives the sha256 of its weights. Without it nothing is kept on disk.
        """
        self.model, self.preparation, self.device = model, preparation, device
        self.name, self.weights = name, weights
        if device.type == "cuda":  # before the compiler is first used, which would choose a temporary folder
            keep_compiled_code()
        self.batch = CPU_BATCH if device.type == "cpu" else GPU_BATCH
        self.used: EngineName = "torch"
        self.compile_after, self.seen, self.compiled = compile_after, 0, False
        self._behind = 1.0  # share of batches that were not ready when they were wanted: what bounds the work
        self._parts = picture_parts(model)
        self._tower: Tower | None = None  # what runs instead of the model, on a processor
        self._trial: EngineTrial | None = None  # while engines are compared
        self._asked = engine
        self._next: EngineName | None = None  # one to use from the next picture on: opening it may take a while
        self._switching = threading.Lock()  # threads that share an engine wait while one of them changes it
        if engine != "auto":
            self._next = engine
        elif self._parts:
            self._choose()
        if device.type != "cpu" and self._next is not None:
            self._use(self._next)

    @property
    def engines(self) -> tuple[EngineName, ...]:
        """The engines that may be fast on this device."""
        if self.device.type == "cuda":
            bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
            return ("torch", "bf16") if bf16 else ("torch",)
        return processor_engines() if self.device.type == "cpu" else ("torch",)

    @cached_property
    def mark(self) -> str:
        """What a recipe must say of an engine that was asked for: nothing where its vectors agree with float32's."""
        if self._asked not in ROUNDED or self.weights is None:
            return ""
        return self._converted(self._asked, self.weights()).mark

    def _choose(self) -> None:
        """The fastest engine: known for a GPU; for a processor remembered, or found with the first pictures."""
        if self.device.type == "cuda":
            self._next = self.engines[-1]
        elif self.device.type == "cpu" and len(self.engines) > 1:
            self._trial = EngineTrial(self.name, self.engines, self.weights)

    def _use(self, engine: EngineName) -> None:
        if self.device.type == "cpu":
            self._tower = self._open(engine)  # if this fails, the engine stays wanted: no other vectors are given
        elif engine == "bf16":
            for part in self._parts:
                part.to(torch.bfloat16)
        self.used, self._next = engine, None

    def _use_next(self, engine: EngineName) -> None:
        """Use an engine from now on; one that nobody asked for gives way to torch where it cannot be opened."""
        try:
            self._use(engine)
        except (UserError, OSError) as problem:
            if self._asked != "auto":
                raise
            _log.warning(f"Pictures are encoded in fp32 by torch: {problem}")
            self._use("torch")

    def _open(self, engine: EngineName) -> Tower | None:
        """What computes on a processor; None: the model itself, which stays in float32."""
        if engine == "torch" or (engine == "fp32" and not openvino_installed()):
            return None
        if engine in ROUNDED or openvino_installed():
            if self.weights is None:
                return OpenVinoTower(convert(self.model, self.preparation, converted_form(engine)), engine, self.batch)
            return OpenVinoTower(self._converted(engine, self.weights()).path, engine, self.batch)
        other = with_own_picture_part(self.model)
        for part in picture_parts(other):
            part.to(torch.bfloat16)
        return lambda pixels: picture_vectors(other, pixels.to(torch.bfloat16)).float()

    def _converted(self, engine: EngineName, weights: str) -> ConvertedModel:
        try:
            return converted_model(self.model, self.preparation, weights, converted_form(engine))
        except (UserError, OSError):
            raise
        except Exception as problem:  # the converter fails in many ways
            first = str(problem).strip().partition("\n")[0] or type(problem).__name__
            raise EncoderError(
                f"{self.name} cannot be converted for OpenVINO ({first}): set {ENGINE_SETTING} to auto or torch."
            ) from problem

    @torch.inference_mode()
    def start(self, pictures: NDArray[np.uint8]) -> Callable[[], Array]:
        """Begin with pictures (N, H, W, 3), at most a batch; the result waits for their vectors (N, D)."""
        trial = self._settled()
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

    def _settled(self) -> EngineTrial | None:
        """Switch to another engine if that is due. Returns the trial that still collects batches."""
        with self._switching:
            if self._trial is not None and (choice := self._trial.recalled) is not None:
                self._trial, self._next = None, choice.chosen
            if self._next is not None:
                self._use_next(self._next)
            return self._trial

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
        return picture_vectors(self.model, pixels.to(torch.bfloat16 if self.used == "bf16" else torch.float32))[:count]

    def _compare(self, trial: EngineTrial, pictures: NDArray[np.uint8], vectors: Array, seconds: float) -> None:
        """Note what torch made of a batch; after some of them, try the other engines on the same pictures."""
        with self._switching:
            if trial is self._trial and trial.note(pictures, vectors, seconds):
                choice = trial.decide(self.preparation, self._open)
                self._trial, self._next = None, choice.chosen

    def _compile(self) -> None:
        if self._parts:
            self._parts[0].compile(dynamic=False)
        self.compiled = True
