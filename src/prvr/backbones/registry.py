"""The list of methods. A backbone joins it with ``@register``; ``build`` makes one by name."""

from __future__ import annotations

import pkgutil
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from prvr.backbones.base import Backbone, BackboneConfig

_METHODS: dict[str, type[Backbone]] = {}
_Method = TypeVar("_Method", bound=type[Backbone])


class UnknownMethod(ValueError):
    """No backbone of that name; says which there are."""


def register(backbone: _Method) -> _Method:
    """Class decorator: make a backbone available under its ``method`` name."""
    _METHODS[backbone.method] = backbone
    return backbone


def methods() -> dict[str, type[Backbone]]:
    """Every method by name. Each file of this folder is looked at, so that a new one needs no list to be changed."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent)], "prvr.backbones."):
        if not found.ispkg:
            import_module(found.name)
    return dict(sorted(_METHODS.items()))


def method(name: str) -> type[Backbone]:
    """The backbone class of a method."""
    known = methods()
    if name not in known:
        raise UnknownMethod(f"unknown method {name!r}; there are: {', '.join(sorted(known))}")
    return known[name]


def build(name: str, config: BackboneConfig | None = None, **overrides: Any) -> Backbone:
    """A freshly initialised backbone in evaluation mode, from a configuration or from single fields of it.

    >>> build("dreamprvr", registers=4, width=32).config.registers
    4
    """
    cls = method(name)
    if config is None:
        known = {f.name for f in fields(cls.config_type)}
        unknown = sorted(overrides.keys() - known)
        if unknown:
            raise ValueError(f"{name} has no setting {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
        config = cls.config_type(**overrides)
    return cls(config).eval()
