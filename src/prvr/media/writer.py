"""Write pictures to a video file, with PyAV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from prvr.media.frames import Image
from prvr.media.packages import require_av

# One thread: the bytes must not depend on how many cores a machine has. No macroblock tree: with it, x264 gave
# different bytes from one run to the next.
_REPEATABLE = {"threads": "1", "x264-params": "mbtree=0"}
_TICKS = 12800  # per second; divisible by the usual rates


def write_video(
    path: str | Path,
    images: Iterable[Image],
    *,
    fps: float = 25.0,
    times: Sequence[float] | None = None,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    rotation: int = 0,
    audio_seconds: float = 0.0,
) -> Path:
    """Encode pictures to a video file and return its path. The same pictures give the same bytes.

    Args:
        path: the file; its suffix chooses the container.
        images: pictures (H, W, 3) uint8, all of one size.
        fps: pictures per second.
        times: the second at which each picture appears, instead of ``fps``.
        codec: FFmpeg's name of the encoder.
        options: FFmpeg options of that encoder.
        rotation: degrees clockwise by which a player should turn the pictures.
        audio_seconds: the length of a silent sound track; 0 for none.
    """
    av = require_av("encodes videos")
    with av.open(str(path), "w") as container:
        stream: Any = None
        for number, image in enumerate(images):
            if stream is None:
                chosen = {**(_REPEATABLE if codec == "libx264" else {}), **(options or {})}
                stream = container.add_stream(codec, rate=Fraction(fps).limit_denominator(1000), options=chosen)
                stream.height, stream.width = image.shape[:2]
                # Colour at half resolution needs even sizes.
                stream.pix_fmt = "yuv420p" if not (stream.width % 2 or stream.height % 2) else "yuv444p"
                stream.codec_context.time_base = Fraction(1, _TICKS)
                if rotation:
                    stream.set_display_rotation(-rotation)
                sound = _silence(container, audio_seconds)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            seconds = times[number] if times is not None else number / fps
            frame.pts, frame.time_base = round(seconds * _TICKS), Fraction(1, _TICKS)
            following = times[number + 1] if times is not None and number + 1 < len(times) else seconds + 1 / fps
            frame.duration = round(following * _TICKS) - frame.pts
            container.mux(stream.encode(frame))
        if stream is None:
            raise ValueError(f"{path}: a video needs at least one picture, and none were given.")
        container.mux(stream.encode(None))
        for packet in sound:
            container.mux(packet)
    return Path(path)


def _silence(container: Any, seconds: float) -> Iterable[Any]:
    """Packets of a silent sound track, to be written after the pictures."""
    if seconds <= 0:
        return []
    av = require_av()
    stream = container.add_stream("aac", rate=8000)
    stream.layout = "mono"

    def packets() -> Iterable[Any]:
        size = 1024
        for first in range(0, int(seconds * 8000), size):
            frame = av.AudioFrame(format="fltp", layout="mono", samples=size)
            for plane in frame.planes:
                plane.update(bytes(plane.buffer_size))
            frame.sample_rate, frame.pts = 8000, first
            yield from stream.encode(frame)
        yield from stream.encode(None)

    return packets()
