"""Captions and feature files on disk, and the batches made from them."""

from prvr.data.annotation_files import Annotation, write_annotations, write_moments
from prvr.data.batches import epoch_batches, prefetch
from prvr.data.caption_table import SPLIT_NAMES, CaptionRow, TableProblems, read_caption_table
from prvr.data.captions import Caption, Moment, read_captions, read_moments, read_positives
from prvr.data.check import CheckReport, check_collections, find_collections, only_collection
from prvr.data.check_rows import CheckRow
from prvr.data.convert import convert_features
from prvr.data.dataset import Dataset
from prvr.data.datasets import DATASETS, DatasetSpec
from prvr.data.errors import DataError
from prvr.data.feature_tables import FeatureTables, TableSettings
from prvr.data.folder_store import has_array_files
from prvr.data.known_features import KNOWN_FEATURES, KnownFeature, known_feature
from prvr.data.layout import RECIPE_FILE, Collection, collection_folder, has_collection
from prvr.data.official_moments import OfficialMoment, match_moments, read_official_moments
from prvr.data.progress_bar import show_progress
from prvr.data.qvhighlights import annotation_splits, convert_annotations
from prvr.data.resample import normalise_rows, sample_clips, sample_frames, segment_edges
from prvr.data.rules import PreparedVideo, prepare_video
from prvr.data.store_base import FeatureStore
from prvr.data.stores import open_feature_store, stored_name
from prvr.data.text_files import text_lines
from prvr.data.writer import feature_writer, require_space

__all__ = [
    "DATASETS",
    "KNOWN_FEATURES",
    "RECIPE_FILE",
    "SPLIT_NAMES",
    "Annotation",
    "Caption",
    "CaptionRow",
    "CheckReport",
    "CheckRow",
    "Collection",
    "DataError",
    "Dataset",
    "DatasetSpec",
    "FeatureStore",
    "FeatureTables",
    "KnownFeature",
    "Moment",
    "OfficialMoment",
    "PreparedVideo",
    "TableProblems",
    "TableSettings",
    "annotation_splits",
    "check_collections",
    "collection_folder",
    "convert_annotations",
    "convert_features",
    "epoch_batches",
    "feature_writer",
    "find_collections",
    "has_array_files",
    "has_collection",
    "known_feature",
    "match_moments",
    "normalise_rows",
    "only_collection",
    "open_feature_store",
    "prefetch",
    "prepare_video",
    "read_caption_table",
    "read_captions",
    "read_moments",
    "read_official_moments",
    "read_positives",
    "require_space",
    "sample_clips",
    "sample_frames",
    "segment_edges",
    "show_progress",
    "stored_name",
    "text_lines",
    "write_annotations",
    "write_moments",
]
