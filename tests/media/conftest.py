"""Small awkward videos, made on the spot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prvr.media import Image, save_picture, write_video


def grey(level: float, width: int = 64, height: int = 48) -> Image:
    return np.full((height, width, 3), round(level), np.uint8)


def ramp(count: int, width: int = 64, height: int = 48, step: float = 2.0) -> Iterator[Image]:
    """Frame ``i`` is a plain grey of level ``i · step``: what a reader returns tells which frame it saw."""
    return (grey(i * step, width, height) for i in range(count))


def level(image: Image) -> float:
    return float(image.mean())


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of good and bad files."""
    folder = tmp_path_factory.mktemp("films")
    write_video(folder / "steady.mp4", ramp(100), fps=25, audio_seconds=4)
    write_video(folder / "silent.mkv", ramp(50), fps=25)
    # Times of a phone that saves frames: 10 at 25 fps, a picture that stands for three seconds, then 10 more.
    times = [*(i / 25 for i in range(10)), *(3.4 + i / 25 for i in range(10))]
    write_video(folder / "variable.mp4", ramp(20, step=10), times=times)
    write_video(folder / "odd.mkv", ramp(10, 65, 47), fps=5)
    write_video(folder / "one.mp4", ramp(1, step=0), fps=25)
    write_video(folder / "black.mp4", [*[grey(0)] * 30, *[grey(200)] * 30], fps=10)
    write_video(folder / "late.ts", ramp(50), fps=25, options={"g": "12"})  # transport streams do not start at zero
    half = np.zeros((48, 64, 3), np.uint8)
    half[:, :32] = 255  # the left half is white
    for turn in (90, 180, 270):
        write_video(folder / f"turned{turn}.mp4", [half] * 5, fps=5, rotation=turn)

    whole = write_video(folder / "whole.mkv", noise(150), fps=25, options={"g": "10", "crf": "30"}).read_bytes()
    (folder / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    damaged = bytearray(whole)
    damaged[len(whole) // 3 : len(whole) // 3 + 2000] = bytes(range(250)) * 8
    (folder / "damaged.mkv").write_bytes(damaged)
    mp4 = (folder / "steady.mp4").read_bytes()
    (folder / "no-index.mp4").write_bytes(mp4[: len(mp4) // 2])  # what a killed recorder leaves
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("this is not a video\n" * 50)
    (folder / "notes.txt").write_text("neither is this\n" * 50)
    (folder / "garbage.mp4").write_bytes(np.random.default_rng(0).bytes(50_000))
    (folder / "list.m3u8").write_text("#EXTM3U\n#EXTINF:4,\nsteady.mp4\n#EXT-X-ENDLIST\n")
    (folder / "folder.mp4").mkdir()
    _sound(folder / "steady.mp4", folder / "sound.m4a")
    save_picture(folder / "picture.png", grey(9))
    return folder


def noise(count: int) -> Iterator[Image]:
    rng = np.random.default_rng(0)
    return (rng.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(count))


def _sound(video: Path, path: Path) -> None:
    """Copy only the sound track of a video."""
    import av

    with av.open(str(video)) as source, av.open(str(path), "w") as target:
        copy = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is not None:
                packet.stream = copy
                target.mux(packet)
