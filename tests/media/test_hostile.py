"""Files that claim more than they hold: work is bounded by what is decoded, and memory by a stated size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from prvr.library import Library
from prvr.media import Fit, MediaError, Sampling, decode_videos, open_video
from prvr.media.containers import open_limited

av = pytest.importorskip("av")


def write_film(path: Path, times: Sequence[int], codec: str = "mpeg4", size: tuple[int, int] = (16, 16)) -> Path:
    """A film of grey pictures that are shown at these seconds."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=1)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p" if codec == "mpeg4" else "rgb24"
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1)
        for number, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(np.full((*size[::-1], 3), 40 * number % 256, np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_a_claimed_duration_is_not_believed(tmp_path: Path) -> None:
    path = write_film(tmp_path / "year.mkv", [0, 1, 10_000_000])
    assert path.stat().st_size < 1000
    with open_video(path) as video:
        times = [frame.time for frame in video.frames(rate=1.0)]
        assert len(times) < 3700
        assert times[-1] == 10_000_000  # every picture that is there is seen, at its time
        assert "claims to last 2778 hours" in str(video.problem)


def test_many_small_pictures_far_apart_are_bounded_too(tmp_path: Path) -> None:
    path = write_film(tmp_path / "far.mkv", range(0, 2000 * 3600, 3600))
    with open_video(path) as video:
        assert sum(1 for _ in video.frames(rate=1.0)) < 2000 + 86_400 + 1


def test_slides_that_stand_for_minutes_are_sampled_to_the_end(tmp_path: Path) -> None:
    path = write_film(tmp_path / "slides.mkv", range(0, 20 * 300, 300))
    with open_video(path) as video:
        assert sum(1 for _ in video.frames(rate=1.0)) == 19 * 300 + 1
        assert video.problem is None


def test_a_library_takes_what_there_is_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    year = write_film(tmp_path / "films" / "a year.mkv", [0, 1, 10_000_000])
    short = write_film(tmp_path / "films" / "short.mkv", range(5))
    report = Library.create(tmp_path / "library", encoder="plain").add([tmp_path / "films"])
    assert report.added == [year, short]
    assert set(report.damaged) == {year}


def test_decoding_ends_at_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_film(tmp_path / "slow.mkv", range(30))
    monkeypatch.setattr("prvr.media.reader._DECODING", -100.0)
    with open_video(path) as video:
        assert len(list(video.frames(rate=1.0))) == 1
        assert "minutes to decode: left out from 0 s on" in str(video.problem)


def test_processes_give_a_slow_file_up_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, other = write_film(tmp_path / "slow.mkv", range(30)), write_film(tmp_path / "other.mkv", range(3))
    size = slow.stat().st_size
    monkeypatch.setattr("prvr.media.decoder_pool.longest_decoding", lambda bytes: 0.0 if bytes == size else 1000.0)
    files = decode_videos([slow, other], Sampling(1.0, Fit(16, 16), batch=2), 2, start_after=0, wait=True)
    with pytest.raises(MediaError, match="minutes to decode"):
        list(next(files).batches())
    assert sum(len(batch.times) for batch in next(files).batches()) == 3
    files.close()


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = write_film(tmp_path / "wide.mov", [0, 1], "png", (16_000, 4_400))
    assert path.stat().st_size < 2_000_000
    with pytest.raises(MediaError, match="no frame could be decoded"):
        open_video(path)


@pytest.mark.parametrize("version", ["18.1.0", "19.0.2"])
def test_limits_reach_what_decodes_while_a_file_is_opened(version: str) -> None:
    """PyAV renamed what it takes for that in version 19: a limit must not go to the container alone, nor to nothing."""
    given: dict[str, Any] = {}
    package = SimpleNamespace(__version__=version, open=lambda source, **how: given.update(how))
    open_limited(package, "film.mp4", "file", {"max_pixels": "5"}, timeout=7.0)
    if version.startswith("18"):
        assert {tuple(each.items()) for each in given["stream_options"]} == {(("max_pixels", "5"),)}
        assert given["options"] == {"protocol_whitelist": "file"}
    else:
        assert given["options"] == {"max_pixels": "5"}
        assert given["container_options"] == {"protocol_whitelist": "file"}
    assert given["timeout"] == 7.0
