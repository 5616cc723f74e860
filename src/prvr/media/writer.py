"""Pictures to a video file, with PyAV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from prvr.media.errors import MissingExtra
from prvr.media.frames import Image

# One thread: bytes must not depend on how many cores a machine has. And no macroblock tree: with it, x264 was seen to
# give other bytes from one run to the next.
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
    """Encode pictures (H, W, 3) uint8, at ``fps`` or at given ``times``; the same pictures give the same bytes.

    ``rotation``: degrees clockwise that a player is asked to turn them by. ``audio_seconds``: a silent sound track.
    """
    try:
        import av
    except ImportError as problem:
        raise MissingExtra("PyAV, which encodes videos,", "media", problem) from problem

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
            raise ValueError(f"{path}: no pictures were given to make a video of")
        container.mux(stream.encode(None))
        for packet in sound:
            container.mux(packet)
    return Path(path)


def _silence(container: Any, seconds: float) -> Iterable[Any]:
    """Packets of silence, encoded once the pictures are through."""
    if seconds <= 0:
        return []
    import av

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
