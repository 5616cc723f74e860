"""Text–video models that expose their local tokens: one file per method, shared parts in ``blocks``."""

from prvr.backbones.base import Backbone, BackboneConfig, Encoded, total_loss
from prvr.backbones.official import CheckpointMismatch, from_official, load_official, to_official
from prvr.backbones.registry import UnknownMethod, build, method, methods, register
from prvr.backbones.scores import TokenSet, max_cosine, max_dot

__all__ = [
    "Backbone",
    "BackboneConfig",
    "CheckpointMismatch",
    "Encoded",
    "TokenSet",
    "UnknownMethod",
    "build",
    "from_official",
    "load_official",
    "max_cosine",
    "max_dot",
    "method",
    "methods",
    "register",
    "to_official",
    "total_loss",
]
