"""Text–video models that expose their local tokens: one file per method, shared parts in ``blocks``.

``build(name, …)`` makes any method by name and ``from_official`` loads its authors' weights. Classes of single methods
are exported only where code outside this folder works with that method in particular.
"""

from typing import TYPE_CHECKING, Any

from prvr.backbones.base import Backbone, BackboneConfig, Encoded, FirstStage, total_loss
from prvr.backbones.blocks.official import OfficialKey, official_names, stack_depth
from prvr.backbones.blocks.packed_words import join_queries
from prvr.backbones.checkpoints import OfficialCheckpoint, read_official_checkpoint
from prvr.backbones.frozen import Frozen, FrozenConfig, FrozenTokens
from prvr.backbones.official import CheckpointMismatch, from_official, load_official, to_official, unstack
from prvr.backbones.ranges import require_ranges
from prvr.backbones.registry import METHOD_FOLDERS, UnknownMethod, build, method, methods, register
from prvr.backbones.scores import TokenSet, max_cosine, max_dot

if TYPE_CHECKING:
    from prvr.backbones.dreamprvr import DreamPRVR, DreamPRVRConfig, Imagined
else:

    def __getattr__(name: str) -> Any:
        """Import a method's classes when they are used: a search in a library needs neither them nor the losses."""
        if name not in ("DreamPRVR", "DreamPRVRConfig", "Imagined"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from prvr.backbones import dreamprvr

        return getattr(dreamprvr, name)


__all__ = [
    "METHOD_FOLDERS",
    "Backbone",
    "BackboneConfig",
    "CheckpointMismatch",
    "DreamPRVR",
    "DreamPRVRConfig",
    "Encoded",
    "FirstStage",
    "Frozen",
    "FrozenConfig",
    "FrozenTokens",
    "Imagined",
    "OfficialCheckpoint",
    "OfficialKey",
    "TokenSet",
    "UnknownMethod",
    "build",
    "from_official",
    "join_queries",
    "load_official",
    "max_cosine",
    "max_dot",
    "method",
    "methods",
    "official_names",
    "read_official_checkpoint",
    "register",
    "require_ranges",
    "stack_depth",
    "to_official",
    "total_loss",
    "unstack",
]
