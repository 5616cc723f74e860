"""Made-up data with known answers. Three kinds of it share one vocabulary: ``Script``, ``Event``, ``Query``, ``Peak``.

- Feature worlds: frame and word features drawn directly, in the layout of a dataset (``write_feature_world``).
- Rendered worlds: small real films with captions (``render_world``), and a dataset made of them
  (``write_rendered_dataset``).
- Symbolic proxies: real sentences and moments of annotated datasets, with frames made of annotations instead of pixels
  (``read_charades`` or ``read_activitynet``, then ``write_proxy``).
"""

from prvr.worlds.features.config import FEATURE_SIZES, FeatureWorldConfig
from prvr.worlds.features.world import read_feature_scripts, read_feature_vocabulary, write_feature_world
from prvr.worlds.proxies.activitynet import read_activitynet
from prvr.worlds.proxies.charades import read_charades
from prvr.worlds.proxies.config import NOISE_LEVELS, NoiseLevel, ProxyConfig
from prvr.worlds.proxies.embeddings import nearest_texts
from prvr.worlds.proxies.frames import add_noise, compose_frames, damage_labels
from prvr.worlds.proxies.source import Label, ProxySource
from prvr.worlds.proxies.world import write_proxy
from prvr.worlds.rendered.config import RENDERED_SIZES, RenderConfig
from prvr.worlds.rendered.dataset import write_rendered_dataset
from prvr.worlds.rendered.events import FilmQuery
from prvr.worlds.rendered.shapes import SHAPE_COLOURS, paint_shape
from prvr.worlds.rendered.world import RenderedWorld, plan_world, render_world
from prvr.worlds.script import SPLITS, Event, Peak, Query, Script, matching_events, shown_nowhere

__all__ = [
    "FEATURE_SIZES",
    "NOISE_LEVELS",
    "RENDERED_SIZES",
    "SHAPE_COLOURS",
    "SPLITS",
    "Event",
    "FeatureWorldConfig",
    "FilmQuery",
    "Label",
    "NoiseLevel",
    "Peak",
    "ProxyConfig",
    "ProxySource",
    "Query",
    "RenderConfig",
    "RenderedWorld",
    "Script",
    "add_noise",
    "compose_frames",
    "damage_labels",
    "matching_events",
    "nearest_texts",
    "paint_shape",
    "plan_world",
    "read_activitynet",
    "read_charades",
    "read_feature_scripts",
    "read_feature_vocabulary",
    "render_world",
    "shown_nowhere",
    "write_feature_world",
    "write_proxy",
    "write_rendered_dataset",
]
