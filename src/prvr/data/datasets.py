"""The datasets of this field, and what is published about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DatasetSpec:
    """What is published about a dataset's standard features."""

    name: str
    visual_feature: str  # folder under FeatureData
    visual_width: int
    query_width: int
    videos: Mapping[str, int] = field(default_factory=dict)  # split -> published count
    sentences: Mapping[str, int] = field(default_factory=dict)


# Counts: the dataset note that came with the features; Charades' 5,538 there is a slip for the 5,338 annotated videos.
# Nothing is published about `val` of the first three.
DATASETS: dict[str, DatasetSpec] = {
    spec.name: spec
    for spec in (
        DatasetSpec(
            name="activitynet",
            visual_feature="i3d",
            visual_width=1024,
            query_width=1024,
            videos={"train": 9043, "test": 4430},
            sentences={"train": 33721, "test": 15753},
        ),
        DatasetSpec(
            name="charades",
            visual_feature="i3d_rgb_lgi",
            visual_width=1024,
            query_width=1024,
            videos={"train": 5338, "test": 1334},
            sentences={"train": 12408, "test": 3720},
        ),
        DatasetSpec(
            name="tvr",
            visual_feature="i3d_resnet",
            visual_width=3072,
            query_width=768,
            videos={"train": 17435, "test": 2179},
            sentences={"train": 87175, "test": 10895},
        ),
        DatasetSpec(
            name="qvhighlights",
            visual_feature="slowfast_features+clip_features",
            visual_width=2816,
            query_width=512,
            videos={"val": 1519},  # counted in highlight_val_release.jsonl
            sentences={"val": 1550},
        ),
    )
}
