"""How a video's raw frames become the rows that a method reads.

``standard``: at most so many frames and 32 equal stretches, all rows of (almost) unit length. ``merged`` (MSC-PRVR):
always so many slots, and clips of uneven length made of slots that look alike. ``unnormalised`` (UEM): as standard, but
frames keep their length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.data.feature_tables import TableSettings
from prvr.data.merging import merge_slots
from prvr.data.resample import normalise_rows, sample_clips, sample_frames, segment_mean

Array = NDArray[np.float32]


class PreparedVideo(NamedTuple):
    """One video as a method reads it."""

    frames: Array  # (M, D)
    clips: Array  # (C, D)
    sizes: NDArray[np.int64] | None = None  # (C,) slots that each clip stands for; None: equal stretches


def prepare_video(raw: Array, settings: TableSettings) -> PreparedVideo:
    """Resample one video's frames, (n, D), by the settings' rule."""
    if settings.rule == "merged":
        slots = segment_mean(raw, settings.frames)  # also where there are fewer frames: rows repeat
        clips, sizes = merge_slots(slots, settings.clips)  # before rows are normalised: long ones merge first
        return PreparedVideo(normalise_rows(slots), normalise_rows(clips), sizes)
    frames, clips = sample_frames(raw, settings.frames), normalise_rows(sample_clips(raw, settings.clips))
    return PreparedVideo(frames if settings.rule == "unnormalised" else normalise_rows(frames), clips)
