"""Cut a part of a video into a new file, with pictures and sound."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from prvr.media.buckets import VideoFile
from prvr.media.containers import open_container, start_seconds, video_stream
from prvr.media.errors import MediaError
from prvr.media.packages import require_av
from prvr.media.reader import require_file

_TICKS = 90_000  # per second
_USUAL_RATE = 25


def cut_clip(source: str | VideoFile, start: float, end: float, out: str | Path) -> Path:
    """Write ``source`` from ``start`` to ``end`` (seconds) to an .mp4 file and return its path.

    The part is encoded again, so that it begins and ends exactly there and not at the nearest key frame.

    Raises:
        MediaError: the file is not a video, or nothing can be decoded between the two times.
        ValueError: the times are not a part of a video.
    """
    av = require_av()
    source, out = require_file(source), Path(out)
    if not 0 <= start < end:
        raise ValueError(f"A clip starts at 0 s or later and ends after its start; got {start} to {end}.")
    with open_container(source) as container:
        pictures = video_stream(container, source)
        sound = next((s for s in container.streams.audio if s.codec_context is not None), None)
        origin = start_seconds(container) or 0.0
        container.seek(round((start + origin) * av.time_base))
        unfinished = out.with_name(f".{out.stem}.part.mp4")
        try:
            with av.open(str(unfinished), "w") as target:
                writer = _Writer(target, pictures, sound)
                for kind, at, frame in _frames(container, pictures, sound, origin, end):
                    if at >= start:
                        writer.write(kind, at - start, frame)
                if not writer.close():
                    raise MediaError(source, f"no frame could be decoded between {start:.1f} and {end:.1f} s")
            unfinished.replace(out)
        except av.error.FFmpegError as problem:
            raise MediaError(source, f"a clip could not be written: {problem.strerror}") from problem
        finally:
            unfinished.unlink(missing_ok=True)
    return out


def _frames(container: Any, pictures: Any, sound: Any, origin: float, end: float) -> Iterator[tuple[str, float, Any]]:
    """Decoded pictures and sound as (kind, seconds, frame), until both are past the end."""
    open_kinds = {stream.type for stream in (pictures, sound) if stream is not None}
    for packet in container.demux([stream for stream in (pictures, sound) if stream is not None]):
        for frame in packet.decode():
            at = (frame.time or 0.0) - origin
            if at < end:
                yield packet.stream.type, at, frame
            else:
                open_kinds.discard(packet.stream.type)
        if not open_kinds:
            return


class _Writer:
    """Encodes pictures and sound into an open .mp4 file in the order they arrive."""

    def __init__(self, target: Any, pictures: Any, sound: Any):
        self.target, self.pictures, self.count = target, pictures, 0
        rate = pictures.average_rate or pictures.guessed_rate or _USUAL_RATE
        self.video = target.add_stream("libx264", rate=Fraction(rate).limit_denominator(1000))
        self.video.codec_context.time_base = Fraction(1, _TICKS)
        self.audio, self.resampler = None, None
        if sound is not None:
            self.audio = target.add_stream("aac", rate=sound.codec_context.sample_rate or 44_100)
            self.resampler = require_av().AudioResampler("fltp", "stereo", self.audio.rate)
        self.samples = 0

    def write(self, kind: str, at: float, frame: Any) -> None:
        """Encode a decoded frame of ``kind`` (video or audio) at ``at`` seconds of the clip."""
        if kind == "video":
            if self.count == 0:
                self.video.width, self.video.height = frame.width // 2 * 2 or 2, frame.height // 2 * 2 or 2
                self.video.pix_fmt = "yuv420p"
                if round(frame.rotation):
                    self.video.set_display_rotation(round(frame.rotation))
            scaled = frame.reformat(self.video.width, self.video.height, "yuv420p")
            scaled.pts, scaled.time_base = round(at * _TICKS), Fraction(1, _TICKS)
            self.target.mux(self.video.encode(scaled))
            self.count += 1
        elif self.audio is not None and self.resampler is not None:
            for part in self.resampler.resample(frame):
                part.pts, part.time_base = self.samples, Fraction(1, self.audio.rate)
                self.samples += part.samples
                self.target.mux(self.audio.encode(part))

    def close(self) -> int:
        """Finish the streams; returns how many pictures were written."""
        if self.count:
            self.target.mux(self.video.encode(None))
            if self.audio is not None and self.samples:
                self.target.mux(self.audio.encode(None))
        return self.count
