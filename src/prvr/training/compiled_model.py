"""A model whose heaviest parts are compiled, for steps that repeat one shape many times."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from prvr.compiler import CompiledBefore
from prvr.tokens import TrainBatch
from prvr.training.model import TraceModel
from prvr.training.schedule import PhaseEpoch

PAYS_AFTER_STEPS = 5_000  # compiling takes about two minutes, which shorter trainings do not recover
PAYS_AGAIN_AFTER_STEPS = 500  # it takes seconds where the compiler's results of an earlier training were kept
_CALLS_TO_COMPILE = 4  # of a shape: after them nothing is left to compile for it


class CompiledModel:
    """Computes a model's loss terms with TRACE, and the parts that its backbone names in ``compiled``, compiled.

    The model itself stays as it is, so everything else that runs it never waits for a compiler: evaluation, and the
    last batch of an epoch, which is smaller than the others. ``videos`` is how many the other batches have.
    """

    def __init__(self, model: TraceModel, videos: int):
        self.model, self.calls, self.before = model, 0, compiled_before(model, videos)
        backbone = model.backbone
        self.parts = {f"backbone.{name}": compiled_part(backbone, name) for name in backbone.compiled}
        self.parts["trace"] = compiled_part(model, "trace")

    def __call__(self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator | None) -> dict[str, Tensor]:
        """The same loss terms as ``model(batch, now, generator)``."""
        # The view is made for each call, so that it always has the model's present mode and settings.
        view = self.model
        for name, part in self.parts.items():
            view = _with_part(view, name, part)
        terms: dict[str, Tensor] = view(batch, now, generator)
        self.calls += 1
        if self.calls == _CALLS_TO_COMPILE:
            self.before.note()
        return terms


def compiled_before(model: TraceModel, videos: int) -> CompiledBefore:
    """Whether a model of this kind was compiled on this kind of device before, for batches of so many videos."""
    device = model.backbone.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return CompiledBefore(torch.__version__, name, model.backbone.method, model.backbone.config, videos)


def compiled_part(module: nn.Module, name: str) -> Any:
    """The compiled form of a submodule or method. Each shape is compiled anew; there are few (see ``pad_batch``)."""
    owner, _, last = name.rpartition(".")
    part = getattr(module.get_submodule(owner), last)
    if isinstance(part, nn.Module):
        return _CompiledPart(part)
    return torch.compile(part, dynamic=False)


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


def _with_part(module: Any, name: str, part: Any) -> Any:
    """A view of a module with another submodule or method in one place. It shares all else, parameters included."""
    child, _, rest = name.partition(".")
    view = copy.copy(module)
    view._modules = dict(module._modules)
    if rest:
        view._modules[child] = _with_part(module._modules[child], rest, part)
    elif child in view._modules:
        view._modules[child] = part
    else:
        view.__dict__[child] = part
    return view
