"""Compiling what a training step repeats: the parts of a backbone that hold most of its work."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from prvr.backbones import Backbone

PAYS_AFTER_STEPS = 5_000  # compiling takes a minute or so and saves about fifteen milliseconds of each step on an H200


def compile_parts(backbone: Backbone) -> None:
    """Compile the submodules that the backbone names, for training steps alone.

    Batches of a captured step have few shapes, so each part is compiled for the shapes it meets. Evaluation, with its
    ragged batches, keeps the plain form and never waits for a compiler.
    """
    for name in backbone.compiled:
        module = backbone.get_submodule(name)
        if "forward" not in vars(module):  # done in an earlier phase of the same training
            _compile_for_training(module)


def _compile_for_training(module: nn.Module) -> None:
    plain = module.forward
    compiled = torch.compile(plain, dynamic=False)

    def forward(*args: Any, **kwargs: Any) -> Any:
        chosen = compiled if module.training and torch.is_grad_enabled() else plain
        return chosen(*args, **kwargs)

    module.forward = forward
