"""Clips cut from videos."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from prvr.media import CLIP_PROGRAM, MediaError, cut_clip, open_video, write_video
from prvr.media.containers import demuxed
from tests.media.conftest import grey, level, ramp

av = pytest.importorskip("av", reason='clips need PyAV: pip install "prvr[media]"')


def levels(path: Path, rate: float) -> list[float]:
    with open_video(path) as video:
        return [level(frame.image) for frame in video.frames(rate)]


def write_beep(path: Path, seconds: float, beep: tuple[float, float], codec: str = "pcm_s16le") -> Path:
    """A black film whose sound is silent, but for a tone; the picture is white while it sounds."""
    with av.open(str(path), "w") as file:
        video, audio = file.add_stream("libx264", rate=25), file.add_stream(codec, rate=44_100, layout="mono")
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        for number in range(round(seconds * 25)):
            frame = av.VideoFrame.from_ndarray(grey(255 if beep[0] <= number / 25 < beep[1] else 0), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            file.mux(video.encode(frame))
            times = (np.arange(1764) + number * 1764) / 44_100
            tone = np.where((times >= beep[0]) & (times < beep[1]), 20_000 * np.sin(times * 880), 0).astype(np.int16)
            sound = av.AudioFrame.from_ndarray(tone[None], format="s16", layout="mono")
            sound.sample_rate, sound.pts, sound.time_base = 44_100, number * 1764, Fraction(1, 44_100)
            file.mux(audio.encode(sound))
        file.mux([*video.encode(None), *audio.encode(None)])
    return path


def loud_times(path: Path) -> tuple[float, float]:
    """The first and the last second of a file that is not silent."""
    with av.open(str(path)) as file:
        rate = file.streams.audio[0].rate
        sound = np.concatenate([frame.to_ndarray().mean(0) for frame in file.decode(audio=0)])
    loud = np.flatnonzero(np.abs(sound) > 0.1)
    return loud[0] / rate, loud[-1] / rate


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_clip_holds_what_was_asked_for(tmp_path: Path, suffix: str) -> None:
    pictures = (np.full((48, 64, 3), 5 * second, np.uint8) for second in range(40))
    film = write_video(tmp_path / f"film.{suffix}", pictures, fps=4, audio_seconds=10, options={"g": "15"})
    clip = cut_clip(film, 4.0, 6.5, tmp_path / "clip.mp4")
    with open_video(clip) as video:
        assert "audio" in [stream.kind for stream in video.info.streams]
        assert video.info.duration == pytest.approx(2.5, abs=0.05)
    assert levels(clip, 4.0) == pytest.approx([5.0 * n for n in range(16, 26)], abs=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clip.mp4", film.name]


def test_every_browser_plays_a_clip(films: Path, tmp_path: Path) -> None:
    """H.264 with 8 bits and colour at half size, AAC, and the index before the pictures."""
    clip = cut_clip(films / "steady.mp4", 1.0, 2.0, tmp_path / "clip.mp4")
    with av.open(str(clip)) as file:
        video, audio = file.streams.video[0], file.streams.audio[0]
        assert (video.codec_context.name, video.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (audio.codec_context.name, audio.rate, audio.channels) == ("aac", 48_000, 2)
    content = clip.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")


def test_pictures_keep_the_colours_that_they_have_in_the_video(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pictures = [np.kron(rng.integers(20, 235, (3, 4, 3), dtype=np.uint8), np.ones((16, 16, 1), np.uint8))] * 10
    for name, options in (("film.mp4", {"crf": "10"}), ("deep.mkv", {"crf": "10", "profile": "high10"})):
        film = write_video(tmp_path / name, pictures, fps=5, options=options)
        with open_video(film) as video, open_video(cut_clip(film, 0.4, 1.6, tmp_path / "clip.mp4")) as clip:
            wanted, cut = (next(each.frames(1.0)).image.astype(float) for each in (video, clip))
        assert np.abs(wanted - cut).mean() < 4


def test_ten_bit_pictures_become_eight_bit_ones(tmp_path: Path) -> None:
    film = tmp_path / "deep.mkv"
    with av.open(str(film), "w") as file:
        stream = file.add_stream("libx265", rate=5, options={"x265-params": "log-level=none"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p10le"
        stream.codec_context.color_primaries, stream.codec_context.color_trc = 9, 18  # BT.2020, HLG: as phones write
        for number in range(10):
            frame = av.VideoFrame.from_ndarray(grey(20 * number), format="rgb24").reformat(format="yuv420p10le")
            frame.pts, frame.time_base = number, Fraction(1, 5)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    clip = cut_clip(film, 1.0, 2.0, tmp_path / "clip.mp4")
    with av.open(str(clip)) as file:
        context = file.streams.video[0].codec_context
        assert (context.pix_fmt, context.color_primaries, context.color_trc) == ("yuv420p", 9, 18)
    assert levels(clip, 5.0) == pytest.approx([100, 120, 140, 160, 180], abs=5)


def test_turned_and_odd_sized_videos_are_cut_too(films: Path, tmp_path: Path) -> None:
    for turn, bright in ((90, np.s_[:32, :]), (180, np.s_[:, 32:]), (270, np.s_[32:, :])):
        with open_video(cut_clip(films / f"turned{turn}.mp4", 0.2, 0.8, tmp_path / "clip.mp4")) as video:
            assert (video.info.width, video.info.height) == ((64, 48) if turn == 180 else (48, 64))
            assert video.info.rotation == 0  # the pictures themselves are upright
            image = next(video.frames(1.0)).image
        assert image[bright].mean() > 240, turn
        assert image.mean() == pytest.approx(127, abs=6)
    with open_video(cut_clip(films / "odd.mkv", 0.0, 1.0, tmp_path / "clip2.mp4")) as video:
        assert (video.info.width, video.info.height) == (64, 46)


def test_pixels_that_are_not_square_are_stretched(tmp_path: Path) -> None:
    film = tmp_path / "wide.mkv"
    with av.open(str(film), "w") as file:
        stream = file.add_stream("libx264", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(2)
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(grey(100), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 5)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    with open_video(cut_clip(film, 0.0, 0.8, tmp_path / "clip.mp4")) as video:
        assert (video.info.width, video.info.height) == (128, 48)
        assert level(next(video.frames(1.0)).image) == pytest.approx(100, abs=3)  # without black bars


def test_large_pictures_are_scaled_down_where_that_is_asked_for(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mp4", ramp(5, 320, 180), fps=5)
    with open_video(cut_clip(film, 0.0, 1.0, tmp_path / "clip.mp4", longest_side=160)) as video:
        assert (video.info.width, video.info.height) == (160, 90)


def test_a_clip_that_begins_in_a_long_still_begins_with_it(films: Path, tmp_path: Path) -> None:
    """variable.mp4: pictures 0 to 9 until 0.36 s, then picture 9 stands until 3.4 s, then 10 to 19."""
    clip = cut_clip(films / "variable.mp4", 2.0, 3.6, tmp_path / "clip.mp4")
    assert levels(clip, 5.0)[:8] == pytest.approx([90] * 7 + [100], abs=5)
    with open_video(clip) as video:
        assert video.info.duration == pytest.approx(1.6, abs=0.05)
    still = cut_clip(films / "variable.mp4", 1.0, 2.0, tmp_path / "still.mp4")
    assert levels(still, 2.0)[:2] == pytest.approx([90, 90], abs=3)


@pytest.mark.parametrize("gap", [1.0, 8.0])
def test_pictures_far_apart_are_all_in_a_clip(tmp_path: Path, gap: float) -> None:
    """The decoder still holds some of them when the packets are past the end."""
    pictures = [grey(20 * number) for number in range(12)]
    film = write_video(tmp_path / "slides.mp4", pictures, times=[gap * number for number in range(12)])
    clip = cut_clip(film, 3.5 * gap, 5.5 * gap, tmp_path / "clip.mp4")
    assert levels(clip, 4 / gap)[:8] == pytest.approx([60, 60, 80, 80, 80, 80, 100, 100], abs=4)
    with open_video(clip) as video:
        assert video.info.duration == pytest.approx(2 * gap, abs=0.1 * gap)


def test_a_file_that_does_not_start_at_zero(films: Path, tmp_path: Path) -> None:
    for start in (0.0, 0.6, 1.2):
        clip = cut_clip(films / "late.ts", start, start + 0.4, tmp_path / "clip.mp4")
        assert levels(clip, 25.0) == pytest.approx([2 * (25 * start + n) for n in range(10)], abs=3), start


@pytest.mark.parametrize(("suffix", "codec"), [("mkv", "pcm_s16le"), ("mp4", "aac")])
def test_sound_and_pictures_stay_together(tmp_path: Path, suffix: str, codec: str) -> None:
    film = write_beep(tmp_path / f"film.{suffix}", 6.0, (3.0, 4.0), codec)
    clip = cut_clip(film, 2.0, 5.0, tmp_path / "clip.mp4")
    bright = [n / 25 for n, value in enumerate(levels(clip, 25.0)) if value > 128]
    assert (bright[0], bright[-1]) == pytest.approx((1.0, 1.96), abs=0.01)
    assert loud_times(clip) == pytest.approx((1.0, 2.0), abs=0.06)


def test_sound_that_ends_early_is_followed_by_silence(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mp4", ramp(100), fps=10, audio_seconds=2)
    clip = cut_clip(film, 5.0, 8.0, tmp_path / "clip.mp4")
    with av.open(str(clip)) as file:
        assert file.streams.audio[0].duration * file.streams.audio[0].time_base == pytest.approx(3.0, abs=0.05)
    assert levels(clip, 10.0) == pytest.approx([2.0 * n for n in range(50, 80)], abs=3)


def test_damaged_parts_are_skipped(films: Path, tmp_path: Path) -> None:
    with open_video(cut_clip(films / "damaged.mkv", 1.0, 4.0, tmp_path / "clip.mp4")) as video:
        assert video.info.duration == pytest.approx(3.0, abs=0.1)
    assert cut_clip(films / "cut.mkv", 0.0, 100.0, tmp_path / "cut.mp4").stat().st_size > 1000


def test_beyond_the_end_there_is_no_clip(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mp4", [np.zeros((48, 64, 3), np.uint8)] * 10, fps=5)
    with pytest.raises(MediaError, match="no frame could be decoded between"):
        cut_clip(film, 50.0, 60.0, tmp_path / "clip.mp4")
    with pytest.raises(ValueError, match="ends after its start"):
        cut_clip(film, 2.0, 1.0, tmp_path / "clip.mp4")
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


def test_a_clip_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    film = write_video(tmp_path / "film.mp4", ramp(20), fps=5)
    with pytest.raises(KeyboardInterrupt):
        cut_clip(film, 0.0, 4.0, tmp_path / "clip.mp4", progress=stop)
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


def test_the_program_answers_line_by_line(films: Path, tmp_path: Path) -> None:
    def request(name: str) -> dict[str, Any]:
        moment = {"video": str(films / name), "start": 0.5, "end": 1.5}
        out = {"out": str(tmp_path / f"{name}.mp4"), "longest_side": 32}
        return {"moments": [moment], "expected": {}, "format": "clip", **out}

    lines = "".join(json.dumps(request(name)) + "\n" for name in ("text.mp4", "steady.mp4")).encode()
    done = subprocess.run([sys.executable, "-m", CLIP_PROGRAM], input=lines, capture_output=True, check=True)
    refused, answered = (answer for answer in map(json.loads, done.stdout.splitlines()) if "done" not in answer)
    assert "not a video" in refused["problem"]
    assert answered == {"failed": []}
    assert levels(tmp_path / "steady.mp4.mp4", 1.0)[0] == pytest.approx(24, abs=3)  # frame 12
    assert done.stderr == b""


def test_a_broadcast_that_gains_a_stream_is_read_on() -> None:
    """PyAV raises an IndexError at the packets of a stream that it has not seen when it opened the file."""

    class Broadcast:
        parts: ClassVar = [[1, 2], [3], []]

        def demux(self, *streams: Any) -> Iterator[int]:
            yield from self.parts.pop(0)
            if self.parts:
                raise IndexError

    assert list(demuxed(Broadcast(), None)) == [1, 2, 3]
