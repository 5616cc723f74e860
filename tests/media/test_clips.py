"""Clips cut from videos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prvr.media import MediaError, cut_clip, open_video, write_video


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_clip_holds_what_was_asked_for(tmp_path: Path, suffix: str) -> None:
    pictures = (np.full((48, 64, 3), 5 * second, np.uint8) for second in range(40))
    film = write_video(tmp_path / f"film.{suffix}", pictures, fps=4, audio_seconds=10, options={"g": "15"})
    clip = cut_clip(film, 4.0, 6.5, tmp_path / "clip.mp4")
    with open_video(clip) as video:
        levels = [float(frame.image.mean()) for frame in video.frames(4.0)]
        assert "audio" in [stream.kind for stream in video.info.streams]
        assert video.info.duration == pytest.approx(2.5, abs=0.15)
    assert levels == pytest.approx([5.0 * n for n in range(16, 26)], abs=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clip.mp4", film.name]


def test_turned_and_odd_sized_videos_are_cut_too(tmp_path: Path) -> None:
    film = write_video(tmp_path / "turned.mp4", [np.zeros((48, 64, 3), np.uint8)] * 10, fps=5, rotation=90)
    with open_video(cut_clip(film, 0.5, 1.5, tmp_path / "clip.mp4")) as video:
        assert (video.info.width, video.info.height) == (48, 64)
    odd = write_video(tmp_path / "odd.mkv", [np.zeros((47, 65, 3), np.uint8)] * 10, fps=5)
    with open_video(cut_clip(odd, 0.0, 1.0, tmp_path / "clip2.mp4")) as video:
        assert (video.info.width, video.info.height) == (64, 46)


def test_beyond_the_end_there_is_no_clip(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mp4", [np.zeros((48, 64, 3), np.uint8)] * 10, fps=5)
    with pytest.raises(MediaError, match="no frame could be decoded between"):
        cut_clip(film, 50.0, 60.0, tmp_path / "clip.mp4")
    with pytest.raises(ValueError, match="ends after its start"):
        cut_clip(film, 2.0, 1.0, tmp_path / "clip.mp4")
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]
