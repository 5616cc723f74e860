"""What every reader owes its callers: one suite, run over each that loads here."""

from __future__ import annotations

import itertools
import os
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest

from prvr.media import Backend, Fit, Image, MediaError, MissingExtra, VideoReader, open_video, write_video


def level(image: Image) -> float:
    return float(image.mean())


@pytest.fixture(scope="session", params=["pyav", "torchcodec"])
def backend(request: pytest.FixtureRequest) -> Backend:
    name: Backend = request.param
    try:
        open_video(__file__, name)
    except MissingExtra as problem:
        pytest.skip(str(problem))
    except MediaError:
        pass
    return name


def sampled(path: Path, backend: Backend, rate: float = 1.0, fit: Fit | None = None) -> tuple[list[float], list[Image]]:
    with open_video(path, backend) as video:
        frames = list(video.frames(rate, fit))
    assert video.problem is None
    return [frame.time for frame in frames], [frame.image for frame in frames]


def near(found: list[float], expected: list[float], within: float) -> bool:
    return len(found) == len(expected) and np.abs(np.subtract(found, expected)).max() <= within


def test_facts(films: Path, backend: Backend) -> None:
    with open_video(films / "steady.mp4", backend) as video:
        info = video.info
    assert (info.width, info.height, info.rotation, info.codec) == (64, 48, 0, "h264")
    assert info.duration == pytest.approx(4.0, abs=0.1)
    assert info.fps == pytest.approx(25, abs=0.5)
    assert video.decoder.startswith(backend)


def test_a_sample_is_what_is_on_screen(films: Path, backend: Backend) -> None:
    times, images = sampled(films / "steady.mp4", backend, rate=2.0)
    assert times == [k / 2 for k in range(8)]
    on_screen = [2 * int(t * 25 + 1e-6) for t in times]  # frame i is grey 2i
    assert near([level(image) for image in images], on_screen, 3)
    assert all(image.shape == (48, 64, 3) and image.dtype == np.uint8 for image in images)


def test_iterating_again_starts_again(films: Path, backend: Backend) -> None:
    with open_video(films / "steady.mp4", backend) as video:
        first = [frame.time for frame in itertools.islice(video.frames(5.0), 3)]
        assert first == [frame.time for frame in itertools.islice(video.frames(5.0), 3)]


def test_variable_rate_by_presentation_time(films: Path, backend: Backend) -> None:
    times, images = sampled(films / "variable.mp4", backend, rate=1.0)
    assert times == [0.0, 1.0, 2.0, 3.0]  # frame 9 stands from 0.36 s to 3.4 s; the file ends at 3.8 s
    assert near([level(image) for image in images], [0, 90, 90, 90], 4)


@pytest.mark.parametrize(
    ("turn", "shape", "white"), [(90, (64, 48), "top"), (180, (48, 64), "right"), (270, (64, 48), "bottom")]
)
def test_pictures_are_upright(films: Path, backend: Backend, turn: int, shape: tuple[int, int], white: str) -> None:
    with open_video(films / f"turned{turn}.mp4", backend) as video:
        assert (video.info.height, video.info.width) == shape
        assert video.info.rotation == turn
        image = next(iter(video.frames())).image
        small = next(iter(video.frames(fit=Fit(16, 16)))).image
    for picture in (image, small):
        height, width = picture.shape[0] // 2, picture.shape[1] // 2
        halves = {
            "top": picture[:height],
            "bottom": picture[height:],
            "left": picture[:, :width],
            "right": picture[:, width:],
        }
        assert max(halves, key=lambda name: halves[name].mean()) == white


def test_odd_sizes(films: Path, backend: Backend) -> None:
    times, images = sampled(films / "odd.mkv", backend, rate=5.0)
    assert len(times) == 10
    assert images[0].shape == (47, 65, 3)


def test_without_sound_and_with_one_frame(films: Path, backend: Backend) -> None:
    assert sampled(films / "silent.mkv", backend)[0] == [0.0, 1.0]
    assert sampled(films / "one.mp4", backend)[0] == [0.0]
    assert sampled(films / "one.mp4", backend, rate=0.01)[0] == [0.0]


def test_first_frames_black(films: Path, backend: Backend) -> None:
    _, images = sampled(films / "black.mp4", backend)
    assert near([level(image) for image in images], [0, 0, 0, 200, 200, 200], 5)


def test_time_counts_from_the_start_of_the_file(films: Path, backend: Backend) -> None:
    assert sampled(films / "late.ts", backend, rate=2.0)[0] == pytest.approx([0.0, 0.5, 1.0, 1.5], abs=0.05)


def test_fits(films: Path, backend: Backend) -> None:
    assert sampled(films / "steady.mp4", backend, fit=Fit(20, 30))[1][0].shape == (30, 20, 3)
    assert sampled(films / "odd.mkv", backend, fit=Fit(32, 32, "cover"))[1][0].shape == (32, 32, 3)


def test_seeking_shows_the_same_pictures(films: Path, backend: Backend, tmp_path: Path) -> None:
    """Samples further apart than key frames are reached by seeking; a dense index and a sparse one must agree."""
    often = write_video(tmp_path / "often.mp4", _levels(400), fps=20, options={"g": "5", "qp": "1"})
    once = write_video(tmp_path / "once.mp4", _levels(400), fps=20, options={"g": "1000", "qp": "1"})
    for rate in (0.3, 1.0, 3.0):
        (times, jumped), (again, decoded) = sampled(often, backend, rate), sampled(once, backend, rate)
        assert times == again
        assert near([level(image) for image in jumped], [level(image) for image in decoded], 2)


def _levels(count: int) -> list[Image]:
    return [np.full((48, 64, 3), (37 * i) % 250, np.uint8) for i in range(count)]


def test_a_file_cut_short_gives_what_it_has_and_says_so(films: Path, backend: Backend) -> None:
    with open_video(films / "cut.mkv", backend) as video:
        times = [frame.time for frame in video.frames(5.0)]
    assert 5 <= len(times) <= 20  # of 30
    if backend == "pyav":  # torchcodec scans such a file and believes that it ends there
        assert video.problem is not None


def test_damage_in_the_middle_does_not_end_it(films: Path, backend: Backend) -> None:
    with open_video(films / "damaged.mkv", backend) as video:
        times = [frame.time for frame in video.frames(5.0)]
    assert times == sorted(times)
    if backend == "pyav":  # torchcodec may stop where it meets the damage
        assert times[-1] > 5.0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no-index.mp4", "cut short|not a video"),
        ("empty.mp4", "empty"),
        ("text.mp4", "not a video"),
        ("notes.txt", "not a video"),
        ("garbage.mp4", "not a video"),
        ("sound.m4a", "no video stream"),
        ("picture.png", "not a video|picture"),
        ("folder.mp4", "folder"),
        ("absent.mp4", "does not exist"),
        ("bad\0name.mp4", "."),
    ],
)
def test_a_file_that_is_not_a_video_is_refused_with_a_reason(
    films: Path, backend: Backend, name: str, says: str
) -> None:
    with pytest.raises(MediaError, match=says) as caught, open_video(films / name, backend) as video:
        list(video.frames())
    assert caught.value.path == films / name
    assert len(caught.value.reason) > 10


def test_a_play_list_is_not_followed(films: Path) -> None:
    with pytest.raises(MediaError):
        open_video(films / "list.m3u8")


def test_permission_denied(films: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # a superuser may read everything
    with pytest.raises(MediaError, match="permission"):
        open_video(films / "steady.mp4", backend)


def test_a_bad_rate_is_refused(films: Path, backend: Backend) -> None:
    with pytest.raises(ValueError, match="rate"):
        list(open_video(films / "steady.mp4", backend).frames(rate=0))


def test_torchcodec_without_ffmpeg_is_not_the_fault_of_the_file(films: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since 0.17 at the latest it can be imported then, and fails when a file is opened."""
    package = SimpleNamespace(__version__="0.17", ffmpeg_major_version=None)
    monkeypatch.setitem(sys.modules, "torchcodec", package)
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", SimpleNamespace(VideoDecoder=None))
    monkeypatch.delitem(sys.modules, "prvr.media.torchcodec_reader", raising=False)
    with pytest.raises(MissingExtra, match="with a system FFmpeg that it can load"):
        open_video(films / "steady.mp4", "torchcodec")


def test_ten_hours_in_little_memory(tmp_path: Path, backend: Backend) -> None:
    """Ten hours at one tiny frame every twenty seconds, sampled at a tenth of a frame per second."""
    path = write_video(tmp_path / "long.mp4", ramp_forever(1800), fps=0.05, options={"preset": "ultrafast"})
    reader: VideoReader
    with open_video(path, backend) as reader:
        assert reader.info.duration == pytest.approx(36_000, rel=0.01)
        tracemalloc.start()
        count = sum(1 for _ in reader.frames(rate=0.1))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 3600
    assert peak < 5e6


def ramp_forever(count: int) -> list[Image]:
    return [np.full((16, 16, 3), i % 200, np.uint8) for i in range(count)]


@pytest.mark.parametrize("name", ["film.mpg", "film.ts"])
def test_formats_whose_streams_are_known_late_are_read(name: str, tmp_path: Path) -> None:
    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream("mpeg1video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 90, np.uint8), format="rgb24")
        for number in range(50):
            picture.pts = number
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    assert len(list(open_video(tmp_path / name).frames(rate=1.0))) >= 2
