"""Captions, feature files, and the batches made from them."""

from prvr.data.batches import epoch_batches, prefetch
from prvr.data.captions import Caption, Moment, read_captions, read_moments, read_positives
from prvr.data.dataset import Dataset
from prvr.data.errors import DataError
from prvr.data.layout import DATASETS, Collection, DatasetSpec
from prvr.data.prepared import Prepared, Recipe
from prvr.data.stores import BigFileStore, FeatureStore, H5Store, open_store

__all__ = [
    "DATASETS",
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
    "epoch_batches",
    "open_store",
    "prefetch",
    "read_captions",
    "read_moments",
    "read_positives",
]
