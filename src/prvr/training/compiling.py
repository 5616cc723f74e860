"""Compiling what a training step repeats: the parts of a backbone that hold most of its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from prvr.backbones import Backbone

PAYS_AFTER_STEPS = 5_000  # compiling takes a minute or so, which shorter trainings do not win back


class CompiledParts:
    """The submodules that a backbone names, compiled for the one shape that captured steps have.

    Everything else keeps the plain form and never waits for a compiler: evaluation with its ragged batches, and the
    last batch of an epoch, which is smaller than the others and as long as its longest video.
    """

    def __init__(self, backbone: Backbone):
        self.used = False
        for name in backbone.compiled:
            self._compile(backbone.get_submodule(name))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The compiled form, for a while."""
        self.used = True
        try:
            yield
        finally:
            self.used = False

    def _compile(self, module: nn.Module) -> None:
        plain = module.forward
        compiled = torch.compile(plain, dynamic=False)

        def forward(*args: Any, **kwargs: Any) -> Any:
            return (compiled if self.used else plain)(*args, **kwargs)

        module.forward = forward
