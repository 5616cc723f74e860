"""Symbolic-video proxies: real sentences and real moments, frames made of annotations instead of pixels.

    source = read_charades("annotations")                       # or read_activitynet
    write_proxy("proxies/a", source, open_text_encoder("minilm"), ProxyConfig(noise="mid", shape="correlated"))

A frame is what annotators said happens at its time, embedded, carried into another space by a fixed random map, damaged
and buried in noise; a query is a sentence that somebody else wrote. Nothing here says anything about vision.
"""

from prvr.proxy.activitynet import read_activitynet
from prvr.proxy.build import COLLECTION, write_proxy
from prvr.proxy.charades import read_charades
from prvr.proxy.config import NOISE, Control, Noise, ProxyConfig, Shape
from prvr.proxy.stories import Label, Source, Story

__all__ = [
    "COLLECTION",
    "NOISE",
    "Control",
    "Label",
    "Noise",
    "ProxyConfig",
    "Shape",
    "Source",
    "Story",
    "read_activitynet",
    "read_charades",
    "write_proxy",
]
