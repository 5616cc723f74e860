"""Load the authors' checkpoints into our models, and write ours with the authors' keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from prvr.backbones.base import Backbone
from prvr.backbones.blocks.official import OfficialKey, official_names
from prvr.backbones.ranges import require_ranges
from prvr.backbones.registry import method
from prvr.errors import UserError

_IGNORED_BUFFERS = ("position_ids",)  # buffers without weights, which some library versions save


class CheckpointMismatch(UserError):
    """A checkpoint does not fit the model. The message lists the keys or shapes that differ."""


def from_official(name: str, state_dict: Mapping[str, Tensor], config: Mapping[str, Any]) -> Backbone:
    """Build a method with the authors' weights. ``config`` holds the authors' hyper-parameter names.

    Every tensor of the checkpoint must be used and must fit, or a ``CheckpointMismatch`` lists what does not. (Only
    what a method names in ``official_unused``, parts that its authors allocate but never read, may be left over.)
    """
    cls = method(name)
    if not cls.reads_official():
        raise CheckpointMismatch(f"{name} cannot read checkpoints of its authors: it defines no official keys")
    try:
        settings = cls.config_for_checkpoint(config, _unwrapped(state_dict).keys())
        require_ranges(settings)
        backbone = cls(settings)
    except KeyError as missing:
        raise CheckpointMismatch(
            f"the {name} configuration lacks {missing}: give the authors' hyper-parameters as JSON (--config)"
        ) from None
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:  # RuntimeError: also too little memory
        raise CheckpointMismatch(f"no {name} model can be built with this configuration: {error}") from None
    load_official(backbone, state_dict)
    return backbone.eval()


def load_official(backbone: Backbone, state_dict: Mapping[str, Tensor]) -> None:
    """Fill a backbone in place from a state dict with the authors' keys (a ``module.`` prefix is dropped)."""
    given = {key: tensor for key, tensor in _unwrapped(state_dict).items() if not key.endswith(_IGNORED_BUFFERS)}
    keys = backbone.official_keys()
    expected = {leaf for key in keys.values() for leaf in official_names(key)}
    unknown = {key for key in given.keys() - expected if not key.startswith(backbone.official_unused)}
    constant, problems = _constants(backbone.official_constants, {key: given[key] for key in unknown})
    problems += _difference("missing", expected - given.keys()) + _difference("not known", unknown - constant)
    parameters = dict(backbone.named_parameters())
    if not problems:
        for name, key in keys.items():
            try:
                problems += _fill(parameters[name], _stack(key, given), next(official_names(key)))
            except RuntimeError as error:  # tensors of one stack that differ in shape
                problems.append(f"{next(official_names(key))} and its siblings do not stack: {error}")
    if problems:
        raise CheckpointMismatch(f"not a {backbone.method} checkpoint of this configuration: " + "; ".join(problems))


def _unwrapped(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict without the key prefix that training on several devices adds."""
    return {key.removeprefix("module."): tensor for key, tensor in state_dict.items()}


def to_official(backbone: Backbone) -> dict[str, Tensor]:
    """A state dict with the authors' keys; the inverse of ``load_official``."""
    parameters = dict(backbone.named_parameters())
    state: dict[str, Tensor] = {}
    for name, key in backbone.official_keys().items():
        state |= unstack(key, parameters[name].detach())
    return state


def _constants(known: Mapping[str, float], given: Mapping[str, Tensor]) -> tuple[set[str], list[str]]:
    """The keys that hold a constant of the method, and a message for each that has another value."""
    found = {key: value for ending, value in known.items() for key in given if f".{key}".endswith(f".{ending}")}
    wrong = [key for key, value in found.items() if bool((given[key] != value).any())]
    return set(found), [f"{key} is {given[key].tolist()}, but must be {found[key]:g}" for key in sorted(wrong)[:5]]


def _stack(key: OfficialKey, given: Mapping[str, Tensor]) -> Tensor:
    if isinstance(key, str):
        return given[key]
    return torch.stack([_stack(part, given) for part in key])


def unstack(key: OfficialKey, tensor: Tensor) -> dict[str, Tensor]:
    """One of our stacked tensors as the authors' separate ones, by their keys."""
    if isinstance(key, str):
        return {key: tensor.clone()}
    return {name: part for row, sub in zip(tensor, key, strict=True) for name, part in unstack(sub, row).items()}


def _fill(parameter: Tensor, value: Tensor, name: str) -> list[str]:
    if parameter.shape != value.shape:
        return [f"{name} has shape {tuple(value.shape)}, expected {tuple(parameter.shape)}"]
    if not bool(value.isfinite().all()):
        return [f"{name} holds NaN or infinity"]
    with torch.no_grad():
        parameter.copy_(value)
    return []


def _difference(what: str, keys: set[str] | frozenset[str], show: int = 5) -> list[str]:
    if not keys:
        return []
    shown = ", ".join(sorted(keys)[:show])
    return [f"{len(keys)} keys {what} ({shown}{', …' if len(keys) > show else ''})"]
