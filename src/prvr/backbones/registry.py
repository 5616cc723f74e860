"""The methods by name. A backbone joins them with ``@register``; ``build`` makes one by name.

Methods are found in the files of this folder, and in the folders that the environment variable ``PRVR_BACKBONES`` lists
(separated as in ``PATH``). So a new method needs no change here (docs/add-a-backbone.md).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pkgutil
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from prvr.backbones.base import Backbone, BackboneConfig
from prvr.errors import UserError, did_you_mean

METHOD_FOLDERS = "PRVR_BACKBONES"
_METHODS: dict[str, type[Backbone]] = {}
_Method = TypeVar("_Method", bound=type[Backbone])


class UnknownMethod(UserError, ValueError):
    """No backbone of that name; the message lists those there are.

    Also a ``ValueError``, because callers that build a model from a configuration catch that.
    """


def register(backbone: _Method) -> _Method:
    """Class decorator: make a backbone available under its ``method`` name, which must be unique."""
    taken = _METHODS.get(backbone.method)
    if taken is not None and taken.__module__ != backbone.__module__:
        raise UnknownMethod(f"{backbone.__module__} names its method {backbone.method!r}, as {taken.__module__} does")
    _METHODS[backbone.method] = backbone
    return backbone


def methods() -> dict[str, type[Backbone]]:
    """Every method by name, in alphabetical order. Files that were not imported yet are imported."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent)], "prvr.backbones."):
        if not found.ispkg:
            import_module(found.name)
    for folder in filter(None, os.environ.get(METHOD_FOLDERS, "").split(os.pathsep)):
        if not Path(folder).is_dir():
            raise UnknownMethod(f"{METHOD_FOLDERS} lists {folder}, which is not a folder; expected one with .py files")
        for file in sorted(Path(folder).glob("*.py")):
            _import_file(file.resolve())
    return dict(sorted(_METHODS.items()))


def _import_file(file: Path) -> None:
    """Import a file once, under a unique name: dataclasses look up their module by name."""
    name = f"prvr_own_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def method(name: str) -> type[Backbone]:
    """The backbone class of a method."""
    known = methods()
    if name not in known:
        raise UnknownMethod(
            f"unknown method {name!r}.{did_you_mean(name, known)} There are: {', '.join(sorted(known))} "
            f"(list folders with your own methods in {METHOD_FOLDERS})"
        )
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
