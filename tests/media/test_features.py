"""From a file to features: decoded ahead, in parts or at once, and stopped cleanly."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from prvr.media import MediaError, PlainEncoder, feature_parts, open_video, video_features


class SmallBatches(PlainEncoder):
    batch = 3


def test_parts_and_whole_are_the_same(films: Path) -> None:
    whole = video_features(films / "whole.mkv", PlainEncoder(), rate=2.0)
    parts = list(feature_parts(open_video(films / "whole.mkv"), SmallBatches(), rate=2.0))
    assert [len(part.times) for part in parts] == [3, 3, 3, 3]
    np.testing.assert_allclose(np.concatenate([part.vectors for part in parts]), whole.vectors, atol=1e-6)
    assert whole.times.tolist() == [k / 2 for k in range(12)]
    assert whole.recipe.decoder.startswith("pyav")
    assert whole.recipe.rate == 2.0


def test_an_abandoned_video_leaves_no_thread(films: Path) -> None:
    parts = feature_parts(open_video(films / "whole.mkv"), SmallBatches(), rate=25.0)
    next(parts)
    del parts
    assert not [t for t in threading.enumerate() if t.name == "prvr-decode"]


def test_errors_travel(films: Path) -> None:
    with pytest.raises(MediaError, match="empty"):
        video_features(films / "empty.mp4", PlainEncoder())
    with pytest.raises(ValueError, match="rate"):
        video_features(films / "steady.mp4", PlainEncoder(), rate=-1)
    cut = video_features(films / "cut.mkv", PlainEncoder(), rate=5.0)
    assert cut.problem is not None
    assert len(cut) > 3
