"""A small world of drawn films, for trying everything without anybody's videos."""

from prvr.media.render.scripts import Event, Peak, Query, Script
from prvr.media.render.world import SIZES, SPLITS, RenderConfig, RenderedWorld, plan_world, render_world

__all__ = [
    "SIZES",
    "SPLITS",
    "Event",
    "Peak",
    "Query",
    "RenderConfig",
    "RenderedWorld",
    "Script",
    "plan_world",
    "render_world",
]
