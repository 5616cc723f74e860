"""Queries in groups: by how much of the video their moment takes, and by what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from prvr.data import Dataset

# Short, middle and long moments.
RATIO_EDGES = (0.2, 0.4)
KIND_NAMES = {"v": "video", "t": "subtitle", "vt": "video + subtitle"}  # TVR's letters


def moment_ratios(dataset: Dataset) -> Tensor:
    """The moment-to-video ratio of each query, (Q,): the length of its moment (of all its windows) over the video's.

    NaN where the moment is not known; at most 1.
    """
    known, ratios = dataset.moments or {}, []
    for caption in dataset.captions:
        moment = known.get(caption.id)
        usable = moment is not None and moment.duration > 0 and moment.seconds > 0
        ratios.append(min(1.0, moment.seconds / moment.duration) if usable and moment is not None else torch.nan)
    return torch.tensor(ratios, dtype=torch.float64)


def ratio_bins(ratios: Tensor, edges: Sequence[float] = RATIO_EDGES) -> dict[str, Tensor]:
    """Queries by ratio, (Q,) bool each: open below, closed above; queries without a known ratio are in none.

    >>> {name: rows.tolist() for name, rows in ratio_bins(torch.tensor([0.2, 0.3, torch.nan])).items()}
    {'(0, 0.2]': [True, False, False], '(0.2, 0.4]': [False, True, False], '(0.4, 1]': [False, False, False]}
    """
    limits = [0.0, *edges, 1.0]
    return {f"({low:g}, {high:g}]": (ratios > low) & (ratios <= high) for low, high in pairwise(limits)}


def query_kinds(dataset: Dataset) -> tuple[str, ...]:
    """What each query is about, as the dataset says it; an empty word where it does not."""
    known = dataset.moments or {}
    return tuple(known[c.id].kind if c.id in known else "" for c in dataset.captions)


def kind_groups(kinds: Sequence[str]) -> dict[str, Tensor]:
    """Queries by type, (Q,) bool each; TVR's types first, under their full names."""
    present = [kind for kind in KIND_NAMES if kind in kinds] + sorted({*kinds} - {*KIND_NAMES, ""})
    return {KIND_NAMES.get(kind, kind): torch.tensor([found == kind for found in kinds]) for kind in present}
