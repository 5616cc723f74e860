"""Compares the engines that a processor has, on the first pictures of real work."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.media.encoders.base import Array
from prvr.media.encoders.choice import EngineChoice, EngineName, least_cosine, recall_choice, remember_choice
from prvr.media.encoders.preparation import PicturePreparation
from prvr.processes import usable_cores
from prvr.processor import cpu_name

TRIED_BATCHES = 4  # the first of each engine is not timed
_log = logging.getLogger("prvr.media")

Tower: TypeAlias = Callable[[Tensor], Tensor]  # (N, 3, H, W) float32 → (N, D)


class EngineTrial:
    """Collects some batches with torch's float32 vectors, and tries the other engines on them."""

    def __init__(self, model: str, names: tuple[EngineName, ...], weights: Callable[[], str] | None):
        """
        Args:
            model: its name, for people.
            names: the engines to compare, torch first.
            weights: gives the sha256 of the weights; without it the result is not remembered.
        """
        self.model, self.names, self.weights = model, names, weights
        self.batches: list[tuple[NDArray[np.uint8], Array, float]] = []  # pictures, vectors, seconds

    @cached_property
    def recalled(self) -> EngineChoice | None:
        """What an earlier run chose on this machine."""
        return None if self.weights is None else recall_choice(self.weights(), self.names)

    def note(self, pictures: NDArray[np.uint8], vectors: Array, seconds: float) -> bool:
        """Note what torch made of a batch. Returns whether there are enough."""
        self.batches.append((pictures.copy(), vectors, seconds))  # the decoder may use that memory again
        return len(self.batches) >= TRIED_BATCHES

    def decide(self, preparation: PicturePreparation, open_tower: Callable[[EngineName], Tower | None]) -> EngineChoice:
        """Try the other engines, and remember the result. One that fails is left out, with a warning."""
        rates = {"torch": self._rate([seconds for *_, seconds in self.batches])}
        cosines: dict[str, float] = {}
        failed: dict[str, str] = {}
        passing = False  # whether what failed may work the next time: the disk or the memory was full
        for name in self.names[1:]:
            try:
                tower = open_tower(name)
                assert tower is not None
                rates[name], cosines[name] = self._try(preparation, tower)
            except Exception as problem:  # converting and running may fail in many ways, and torch works
                passing = passing or isinstance(problem, (OSError, MemoryError))
                failed[name] = str(problem).strip().partition("\n")[0] or type(problem).__name__
                _log.warning(f"Pictures are encoded without {name}, which failed: {failed[name]}")
        choice = EngineChoice(self.model, cpu_name(), usable_cores(), rates, cosines, failed)
        if self.weights is not None and not passing:
            try:
                remember_choice(self.weights(), self.names, choice)
            except OSError as problem:
                _log.warning(f"The choice of {choice.chosen} cannot be kept for later runs: {problem}")
        return choice

    def _try(self, preparation: PicturePreparation, tower: Tower) -> tuple[float, float]:
        """An engine's pictures a second, and its least cosine to torch."""
        laps, cosines = [], []
        for pictures, expected, _ in self.batches:
            began = time.perf_counter()
            found = tower(preparation.pixels(torch.from_numpy(pictures))).numpy()
            laps.append(time.perf_counter() - began)
            cosines.append(least_cosine(found, expected))
        return self._rate(laps), min(cosines)

    def _rate(self, laps: list[float]) -> float:
        return len(self.batches[0][0]) / statistics.median(laps[1:])
