"""A model whose heaviest parts are compiled, for steps that repeat one shape many times."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from prvr.tokens import TrainBatch
from prvr.training.model import TraceModel
from prvr.training.schedule import PhaseEpoch

PAYS_AFTER_STEPS = 5_000  # compiling takes about a minute, which shorter trainings do not recover


class CompiledModel:
    """Computes a model's loss terms with the parts that its backbone names in ``compiled`` compiled.

    Parts are compiled for one fixed shape. The model itself stays as it is, so everything else that runs it never waits
    for a compiler: evaluation, and the last batch of an epoch, which is smaller than the others.
    """

    def __init__(self, model: TraceModel):
        self.model = model
        self.parts = {name: _CompiledPart(model.backbone.get_submodule(name)) for name in model.backbone.compiled}

    def __call__(self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator | None) -> dict[str, Tensor]:
        """The same loss terms as ``model(batch, now, generator)``."""
        # The view is made for each call, so that it always has the model's present mode and settings.
        view = self.model
        for name, part in self.parts.items():
            view = _with_submodule(view, f"backbone.{name}", part)
        terms: dict[str, Tensor] = view(batch, now, generator)
        return terms


class _CompiledPart(nn.Module):
    """Replaces one submodule: calls run its compiled form, everything else is the submodule's."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module
        self.compiled: Callable[..., Any] = torch.compile(module.forward, dynamic=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def _with_submodule(module: Any, name: str, part: nn.Module) -> Any:
    """A view of a module with another submodule in one place. It shares all else, parameters included."""
    child, _, rest = name.partition(".")
    view = copy.copy(module)
    view._modules = dict(module._modules)
    view._modules[child] = _with_submodule(module._modules[child], rest, part) if rest else part
    return view
