"""A rendered world as a dataset: the feature files and captions that training and evaluation read."""

from __future__ import annotations

from pathlib import Path

from prvr.media import Encoder, ExtractionResult, TextFeatures, write_dataset
from prvr.worlds.rendered.world import RenderedWorld
from prvr.worlds.script import annotate, matching_videos


def write_rendered_dataset(
    root: str | Path,
    world: RenderedWorld,
    encoder: Encoder,
    *,
    collection: str = "rendered",
    rate: float = 2.0,
    text: TextFeatures = "words",
    workers: int = 1,
    progress: bool = True,
) -> ExtractionResult:
    """Write ``root/collection``, the dataset of a rendered world.

    Args:
        root: the folder of collections.
        world: its films are read, its queries become captions.
        encoder: turns frames and sentences into features.
        collection: the name of the dataset.
        rate: frames per second to read.
        text: word by word, or one vector per sentence (which the ``frozen`` backbone needs).
        workers: processes that decode and encode.
        progress: whether to show a progress bar.
    """
    annotations = {
        split: annotate(world.scripts[split], queries, matching_videos(world.scripts[split], queries))
        for split, queries in world.queries.items()
    }
    return write_dataset(
        root, collection, world.videos, annotations, encoder, rate=rate, text=text, workers=workers, progress=progress
    )
