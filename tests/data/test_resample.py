"""Resampling follows the rule of the published features."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from prvr.data.resample import normalise_rows, sample_clips, sample_frames, segment_mean

# Trimmed from the reference numbers that the backbones' fixtures were made with: raw rows, their clips and frames.
GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "data.npz", allow_pickle=False)
LENGTHS = sorted(int(name.rsplit(".", 1)[1]) for name in GOLDEN if name.startswith("prep.raw."))


def naive(features: NDArray[np.float32], segments: int) -> NDArray[np.float64]:
    """The rule as it is written down, one segment at a time."""
    frames = len(features)
    edges = [min(round(i * frames / segments), frames - 1) for i in range(segments + 1)]
    rows = [
        features[left:right].mean(axis=0, dtype=np.float64) if left < right else features[left].astype(np.float64)
        for left, right in pairwise(edges)
    ]
    return np.stack(rows)


@pytest.mark.parametrize("length", LENGTHS)
def test_clips_and_frames_match_the_reference(length: int) -> None:
    raw = GOLDEN[f"prep.raw.{length}"]
    np.testing.assert_allclose(normalise_rows(sample_clips(raw)), GOLDEN[f"prep.clip.{length}"], atol=1e-6, rtol=0)
    if f"prep.frame.{length}" in GOLDEN:
        expected = GOLDEN[f"prep.frame.{length}"]
        np.testing.assert_allclose(normalise_rows(sample_frames(raw)), expected, atol=1e-6, rtol=0)


@settings(max_examples=200, deadline=None)
@given(frames=st.integers(1, 400), segments=st.sampled_from([1, 3, 7, 32, 100, 128]), seed=st.integers(0, 9))
def test_segment_means_follow_the_rule(frames: int, segments: int, seed: int) -> None:
    features = np.random.default_rng(seed).standard_normal((frames, 3), dtype=np.float32)
    np.testing.assert_allclose(segment_mean(features, segments), naive(features, segments), atol=1e-6, rtol=0)


@given(frames=st.integers(1, 300))
def test_frames_are_resampled_only_when_there_are_too_many(frames: int) -> None:
    features = np.arange(frames, dtype=np.float32)[:, None]
    sampled = sample_frames(features, 128)
    assert len(sampled) == min(frames, 128)
    if frames <= 128:
        assert sampled is features


def test_the_last_frame_is_left_out_of_long_videos_only() -> None:
    def uses_last(frames: int) -> bool:
        features = np.zeros((frames, 1), dtype=np.float32)
        features[-1] = 1
        return bool(sample_clips(features, 32)[-1, 0] > 0)

    assert uses_last(47)
    assert not uses_last(48)  # n ≥ 1.5·k


def test_a_row_of_zeros_stays_zero() -> None:
    assert not normalise_rows(np.zeros((2, 4), dtype=np.float32)).any()
