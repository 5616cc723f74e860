"""Front doors that open when they are used: a room's ``__init__`` names what it exports, and imports it on demand.

So a command that needs one small thing of a room does not wait for torch, which another part of the room imports::

    if TYPE_CHECKING:
        from prvr.room.part import Thing
    else:
        __getattr__, __dir__ = lazy_door(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_door(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a room: the names that its ``__init__`` imports ``if TYPE_CHECKING``."""
    places: dict[str, str] = {}

    def find(name: str) -> Any:
        module = sys.modules[room]
        if not places and module.__spec__ is not None:
            places.update(_imported(module.__spec__.loader.get_source(room)))  # type: ignore[union-attr]
        if name not in places:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        place = places[name]
        found = import_module(f"{room}.{name}") if place == room else getattr(import_module(place), name)
        setattr(module, name, found)
        return found

    return find, lambda: sorted(sys.modules[room].__all__)


def _imported(source: str) -> dict[str, str]:
    """The names that a module imports ``if TYPE_CHECKING``, and the module that each comes from.

    >>> _imported("if TYPE_CHECKING:\\n    from prvr.trace.config import TraceConfig")
    {'TraceConfig': 'prvr.trace.config'}
    """
    blocks = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in imports for alias in node.names}
