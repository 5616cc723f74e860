"""The names of a block's parameters in the authors' checkpoints.

A block has a method ``official_keys(prefix)``: its own parameter name → the authors' key, or nested lists of keys where
several of their tensors are stacked into one of ours. The same map loads checkpoints, writes them back, and defines
what the field's optimiser treats as one tensor and what it decays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

OfficialKey: TypeAlias = "str | Sequence[OfficialKey]"
OfficialKeys: TypeAlias = Mapping[str, OfficialKey]


def renamed(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Settings under our names, as far as the authors' configuration has them; what it lacks keeps our default.

    >>> renamed({"drop": 0.2, "device": 1}, {"drop": "dropout", "margin": "margin"})
    {'dropout': 0.2}
    """
    return {ours: config[theirs] for theirs, ours in names.items() if theirs in config}


def listed(config: Mapping[str, Any], name: str, fields: Sequence[str]) -> dict[str, Any]:
    """The same for numbers that the authors keep in one list, by their places in it.

    >>> listed({"loss_factor": [0.02, 0.04]}, "loss_factor", ["weight_clip", "weight_frame", "weight_new"])
    {'weight_clip': 0.02, 'weight_frame': 0.04}
    """
    return dict(zip(fields, config.get(name, ()), strict=False))


def under(child: str, keys: OfficialKeys) -> dict[str, OfficialKey]:
    """The keys of a child module, seen from its parent.

    >>> under("norm", {"weight": "LayerNorm.weight"})
    {'norm.weight': 'LayerNorm.weight'}
    """
    return {f"{child}.{name}": key for name, key in keys.items()}


def affine(child: str, official: str, bias: bool = True) -> dict[str, OfficialKey]:
    """Weight and bias of a Linear or LayerNorm.

    >>> affine("fc", "head.fc")
    {'fc.weight': 'head.fc.weight', 'fc.bias': 'head.fc.bias'}
    """
    return {f"{child}.{part}": f"{official}.{part}" for part in (("weight", "bias") if bias else ("weight",))}


def official_names(key: OfficialKey) -> Iterator[str]:
    """The authors' keys inside a (nested) key, in stacking order."""
    if isinstance(key, str):
        yield key
    else:
        for part in key:
            yield from official_names(part)


def stack_depth(key: OfficialKey) -> int:
    """How many leading axes of our tensor enumerate separate tensors of theirs.

    >>> stack_depth("a"), stack_depth(["a", "b"]), stack_depth([["a"], ["b"]])
    (0, 1, 2)
    """
    return 0 if isinstance(key, str) else 1 + stack_depth(key[0])
