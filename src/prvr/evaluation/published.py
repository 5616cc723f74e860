"""Numbers printed in the papers, to compare with your own.

They are those of the best epoch on the reported split, as is usual in this line of work. ``PUBLISHED_CAVEAT`` says
so and goes wherever they are shown.
"""

from __future__ import annotations

from typing import NamedTuple

from prvr.data import DATASETS
from prvr.scoring import Recall

PUBLISHED_CAVEAT = "published: best epoch on the reported split (TRACE: mean of its last three epochs)"
_TABLE: dict[
    str, dict[str, tuple[float, ...]]
] = {  # TRACE, Table 1: R@1, R@5, R@10, R@100, and SumR, which the paper sums before it rounds
    "clip4clip": {
        "activitynet": (5.9, 19.3, 30.4, 71.6, 127.3),
        "charades": (1.8, 6.5, 10.9, 44.2, 63.4),
        "tvr": (9.9, 24.3, 34.3, 72.5, 141.0),
    },
    "cap4video": {
        "activitynet": (6.3, 20.4, 30.9, 72.6, 130.2),
        "charades": (1.9, 6.7, 11.3, 45.0, 65.0),
        "tvr": (10.3, 26.4, 36.8, 74.0, 147.5),
    },
    "xml": {
        "activitynet": (5.3, 19.4, 30.6, 73.1, 128.4),
        "charades": (1.6, 6.0, 10.1, 46.9, 64.6),
        "tvr": (10.7, 28.1, 38.1, 80.3, 157.1),
    },
    "conquer": {
        "activitynet": (6.5, 20.4, 31.8, 74.3, 133.1),
        "charades": (1.8, 6.3, 10.3, 47.5, 66.0),
        "tvr": (11.0, 28.9, 39.6, 81.3, 160.8),
    },
    "mssl": {
        "activitynet": (7.1, 22.5, 34.7, 75.8, 140.1),
        "charades": (1.8, 7.1, 11.8, 47.7, 68.4),
        "tvr": (13.5, 32.1, 43.4, 83.4, 172.4),
    },
    "gmmformer": {
        "activitynet": (8.3, 24.9, 36.7, 76.1, 146.0),
        "charades": (2.1, 7.8, 12.5, 50.6, 72.9),
        "tvr": (13.9, 33.3, 44.5, 84.9, 176.6),
    },
    "gmmformer_v2": {
        "activitynet": (8.9, 27.1, 40.2, 78.7, 154.9),
        "charades": (2.5, 8.6, 13.9, 53.2, 78.2),
        "tvr": (16.2, 37.6, 48.8, 86.4, 189.1),
    },
    "hlformer": {
        "activitynet": (8.7, 27.1, 40.1, 79.0, 154.9),
        "charades": (2.6, 8.5, 13.7, 54.0, 78.7),
        "tvr": (15.7, 37.1, 48.5, 86.4, 187.7),
    },
    "dreamprvr": {
        "activitynet": (8.7, 27.5, 40.3, 79.5, 156.1),
        "charades": (2.6, 8.7, 14.5, 54.2, 80.0),
        "tvr": (17.4, 39.0, 50.4, 86.2, 193.1),
    },
    "holmes": {
        "activitynet": (9.3, 27.8, 40.5, 79.1, 156.8),
        "charades": (2.3, 9.5, 15.2, 53.6, 80.6),
        "tvr": (17.3, 39.0, 50.4, 87.4, 194.2),
    },
    "ral": {  # RAL's own table, on GMMFormer v2; it has no Charades-STA row
        "activitynet": (8.9, 27.7, 40.4, 79.1, 156.1),
        "tvr": (18.2, 40.4, 52.1, 88.0, 198.8),
    },
    "trace": {
        "activitynet": (9.0, 28.0, 40.7, 79.6, 157.3),
        "charades": (2.7, 9.1, 14.3, 55.0, 81.1),
        "tvr": (17.8, 39.4, 50.7, 86.7, 194.6),
    },
}
_CLIP_TABLE: dict[str, dict[str, tuple[float, ...]]] = {  # MSC-PRVR, Tables 4 and 5; TF-PRVR: SumR alone is known
    "msc_prvr": {
        "activitynet": (17.7, 42.0, 55.6, 86.8, 202.1),
        "charades": (3.2, 12.6, 20.1, 63.8, 99.7),
        "tvr": (35.1, 61.6, 71.5, 94.9, 263.1),
        "qvhighlight": (23.9, 51.5, 63.7, 95.5, 234.6),
    },
    "gmmformer_v2": {
        "activitynet": (17.1, 40.6, 53.7, 85.5, 196.9),
        "charades": (3.1, 11.6, 18.2, 61.4, 94.2),
        "tvr": (34.0, 59.7, 69.8, 94.5, 258.1),
        "qvhighlight": (21.7, 48.0, 60.5, 95.0, 225.2),
    },
    "gmmformer": {
        "activitynet": (15.2, 37.7, 50.5, 83.7, 187.1),
        "charades": (2.7, 10.5, 16.7, 59.4, 89.3),
        "tvr": (29.8, 54.2, 64.6, 92.5, 241.1),
    },
    "mssl": {
        "activitynet": (14.7, 37.1, 50.4, 84.6, 186.7),
        "charades": (3.4, 11.5, 18.7, 62.5, 96.0),
        "tvr": (31.9, 57.6, 67.7, 93.8, 251.0),
        "qvhighlight": (20.4, 46.7, 60.7, 94.6, 222.5),
    },
    "tf_prvr": {"activitynet": (193.9,), "charades": (80.8,), "tvr": (178.3,)},
}
CLIP_CAVEAT = (
    "published: CLIP ViT-L/14 features (QVHighlights: SlowFast and CLIP ViT-B/32), one seed, best epoch on the "
    "reported split; not comparable with numbers on other features"
)
_CLIP_FILES = ("_clip_L14", "_slowfast_clip")  # endings of the features that the second table is about


def published_values(method: str, dataset: str, visual_feature: str | None = None) -> tuple[float, ...] | None:
    """R@1, R@5, R@10, R@100 and SumR as they are printed (or SumR alone), on features of the same kind; or None.

    >>> published_values("msc_prvr", "tvr"), published_values("msc_prvr", "tvr", "tvr_clip_L14")[-1]
    (None, 263.1)
    >>> published_values("xml", "tvr", "clip_features") is None
    True
    """
    standard = DATASETS[dataset].visual_feature if dataset in DATASETS else visual_feature
    if on_clip(visual_feature):
        return _CLIP_TABLE.get(method, {}).get(dataset)
    return _TABLE.get(method, {}).get(dataset) if visual_feature in (None, standard) else None


def published_methods(dataset: str, visual_feature: str | None = None) -> list[str]:
    """Methods with published numbers on a dataset, on features of the same kind.

    >>> published_methods("charades", "charades_clip_L14")
    ['msc_prvr', 'gmmformer_v2', 'gmmformer', 'mssl', 'tf_prvr']
    """
    table = _CLIP_TABLE if on_clip(visual_feature) else _TABLE
    return [method for method, known in table.items() if dataset in known]


def on_clip(visual_feature: str | None) -> bool:
    """Whether features are CLIP's. Numbers on them and on the standard ones never share a column."""
    return visual_feature is not None and visual_feature.endswith(_CLIP_FILES)


def published_caveat(visual_feature: str | None) -> str:
    """What goes with published numbers on such features."""
    return CLIP_CAVEAT if on_clip(visual_feature) else PUBLISHED_CAVEAT


def published_recall(method: str, dataset: str, visual_feature: str | None = None) -> Recall | None:
    """A method's published recalls on features of the same kind, or None.

    >>> published_recall("trace", "charades").r100
    55.0
    """
    values = published_values(method, dataset, visual_feature)
    if values is None or len(values) == 1:
        return None
    return Recall(tuple(zip((1, 5, 10, 100), values, strict=False)), _queries(dataset))


def _queries(dataset: str) -> int:
    """Queries of the published test split; 0 where it is not known."""
    return DATASETS[dataset].sentences.get("test", 0) if dataset in DATASETS else 0


def published_sum_r(method: str, dataset: str, visual_feature: str | None = None) -> float | None:
    """A method's SumR as it is printed, or None.

    >>> published_sum_r("clip4clip", "charades"), published_sum_r("mine", "charades")
    (63.4, None)
    """
    values = published_values(method, dataset, visual_feature)
    return None if values is None else values[-1]


class PublishedCost(NamedTuple):
    """A row of TRACE's Table 2: Charades-STA on eight A800 GPUs."""

    train_ms: int  # per epoch
    parameters: float  # million
    gallery_ms: int  # encoding 1,334 videos
    retrieval_ms: int  # query encoding, similarity and ranking of 3,720 queries


COST_CAVEAT = "published: Charades-STA, 1,334 videos, eight A800 GPUs"
COSTS = {
    "gmmformer": PublishedCost(26_887, 12.85, 2_876, 3_238),
    "hlformer": PublishedCost(31_463, 28.43, 3_816, 3_655),
    "gmmformer_v2": PublishedCost(38_004, 30.79, 3_843, 3_688),
    "dreamprvr": PublishedCost(33_609, 36.14, 4_001, 3_686),
    "trace": PublishedCost(35_396, 36.73, 4_118, 3_708),
}
