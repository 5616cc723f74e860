"""Captions, feature files, and the batches made from them; and synthetic worlds that write the same files."""

from prvr.data.batches import epoch_batches, prefetch
from prvr.data.captions import Caption, Moment, read_captions, read_moments, read_positives
from prvr.data.dataset import Dataset
from prvr.data.errors import DataError
from prvr.data.layout import DATASETS, Collection, DatasetSpec
from prvr.data.prepared import Prepared, Recipe
from prvr.data.stores import BigFileStore, FeatureStore, H5Store, open_store
from prvr.data.synth import SIZES, SynthConfig, write_world

__all__ = [
    "DATASETS",
    "SIZES",
    "BigFileStore",
    "Caption",
    "Collection",
    "DataError",
    "Dataset",
    "DatasetSpec",
    "FeatureStore",
    "H5Store",
    "Moment",
    "Prepared",
    "Recipe",
    "SynthConfig",
    "epoch_batches",
    "open_store",
    "prefetch",
    "read_captions",
    "read_moments",
    "read_positives",
    "write_world",
]
