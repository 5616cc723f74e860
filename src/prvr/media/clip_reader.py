"""Decode a stretch of a video: what is on screen and what is heard, with times that begin at the stretch's start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prvr.media.buckets import VideoFile
from prvr.media.containers import demuxed, open_container, start_seconds, video_stream
from prvr.media.frames import USUAL_RATE
from prvr.media.packages import require_av

SOUND_RATE = 48_000  # samples per second, of every clip
_BEYOND = 5.0  # seconds after the end at which reading stops, although one stream has not reached the end
_JUMP = 0.1  # seconds: smaller jumps in the times of the sound are rounding errors of the file
_EARLIER = (0.0, 10.0, 60.0)  # seconds before the start to seek to, one after the other


@dataclass(frozen=True)
class ShownPicture:
    """A decoded picture and the seconds of the clip in which it is on screen."""

    start: float
    end: float
    frame: Any  # av.VideoFrame
    aspect: float  # of its pixels


@dataclass(frozen=True)
class HeardSound:
    """Decoded sound from a second of the clip on, at ``SOUND_RATE``."""

    start: float
    samples: NDArray[np.float32]  # (2, samples)


def read_stretch(source: VideoFile, start: float, end: float) -> Iterator[ShownPicture | HeardSound]:
    """Decode a video from ``start`` to ``end`` (seconds). Damaged parts are skipped.

    Pictures follow each other without gaps: the first begins at 0 s of the clip, with what is on screen at ``start``.

    Raises:
        MediaError: the file cannot be opened or has no pictures.
    """
    with open_container(source) as container:
        stretch = _Stretch(container, source, start, end)
        held: tuple[float, Any] | None = None
        for kind, at, frame in stretch.decoded():
            if kind == "audio":
                yield HeardSound(at - start, frame)
                continue
            if held is not None and at > max(held[0], start):
                yield stretch.shown(held, at)
            if held is None or at > held[0]:
                held = (at, frame)
        if held is not None and (until := stretch.last_end(held)) > start:
            yield stretch.shown(held, until)


class _Stretch:
    """The streams of an open file, and the part of them that is read."""

    def __init__(self, container: Any, source: VideoFile, start: float, end: float):
        self.container, self.start, self.end = container, start, end
        self.pictures = video_stream(container, source)
        self.pictures.thread_type = "AUTO"
        self.sound = next((stream for stream in container.streams.audio if stream.codec_context is not None), None)
        self.origin = start_seconds(container) or 0.0
        rate = self.pictures.average_rate or self.pictures.guessed_rate
        self.gap = 1 / float(rate) if rate else 1 / USUAL_RATE
        self.aspect = float(self.pictures.sample_aspect_ratio or 1)
        self.first = True  # whether the picture that begins the clip is still to come
        self.passed = False  # whether the file goes on after the end

    def shown(self, held: tuple[float, Any], until: float) -> ShownPicture:
        """A picture that is on screen until a second of the video."""
        begin = 0.0 if self.first else held[0] - self.start
        self.first = False
        return ShownPicture(begin, until - self.start, held[1], self.aspect)

    def last_end(self, held: tuple[float, Any]) -> float:
        """Where the last picture ends: at the end of the stretch, or before it where the video ends."""
        at, frame = held
        if self.passed:
            return self.end
        ticks = frame.duration
        return min(self.end, at + (float(ticks * frame.time_base) if ticks and frame.time_base else self.gap))

    def decoded(self) -> Iterator[tuple[str, float, Any]]:
        """Pictures and sound as (kind, seconds of the video, frame or samples), up to the end."""
        resampler = _Resampler()
        for kind, at, frame in self._from_start():
            if kind == "video":
                if at < self.end:
                    yield kind, at, frame
                continue
            for heard, samples in resampler(frame, at):
                first, last = (max(0, round((side - heard) * SOUND_RATE)) for side in (self.start, self.end))
                if first < min(last, samples.shape[1]):
                    yield kind, heard + first / SOUND_RATE, samples[:, first:last]

    def _from_start(self) -> Iterator[tuple[str, float, Any]]:
        """Decoded frames of both streams, from a key frame at or before the start."""
        for earlier in _EARLIER if self.start > 0 else ():
            target = max(0.0, self.start - earlier)
            with suppress(require_av().error.FFmpegError):  # without an index, the file is read from where it is
                self.container.seek(round((target + self.origin) * require_av().time_base))
            frames, before = self._frames(), []
            for found in frames:
                before.append(found)
                if found[0] == "video":
                    break
            # Some files have no index, and a seek lands behind the place.
            if earlier == _EARLIER[-1] or (before and before[-1][0] == "video" and before[-1][1] <= self.start):
                yield from before
                yield from frames
                return
        yield from self._frames()

    def _frames(self) -> Iterator[tuple[str, float, Any]]:
        """Every frame that decodes, with its second of the video, until both streams are past the end."""
        av = require_av()
        streams = {stream.type: stream for stream in (self.pictures, self.sound) if stream is not None}
        last = {"video": -self.gap, "audio": 0.0}  # where a file states no times, they are counted
        unfinished, packets = {*streams}, demuxed(self.container, *streams.values())

        def timed(kind: str, frames: list[Any]) -> Iterator[tuple[str, float, Any]]:
            for frame in frames:
                step = self.gap if kind == "video" else frame.samples / max(1, frame.sample_rate)
                base = frame.time_base or streams[kind].time_base  # a frame that was held back does not know its own
                last[kind] = last[kind] + step if frame.pts is None else float(frame.pts * base) - self.origin
                if last[kind] >= self.end:
                    unfinished.discard(kind)
                    self.passed = self.passed or kind == "video"
                yield kind, last[kind], frame

        while unfinished:
            try:
                packet = next(packets, None)
            except (av.error.FFmpegError, OSError):  # the file ends in the middle of a packet
                packet = None
            # Packets come in the order in which they are decoded: one that is shown later may come first.
            at = None if packet is None else packet.pts if packet.dts is None else packet.dts
            if packet is not None and at is not None:
                beyond = float(at * packet.time_base) - self.origin > self.end + _BEYOND
                self.passed = self.passed or beyond
                packet = None if beyond else packet
            if packet is None:
                for kind, stream in streams.items():  # the decoder may hold frames back
                    yield from timed(kind, _decode(stream.codec_context))
                return
            yield from timed(packet.stream.type, _decode(packet))


def _decode(packet: Any) -> list[Any]:
    """The frames of a packet, or those that a decoder still holds; none where the packet is damaged."""
    try:
        return list(packet.decode())
    except (require_av().error.FFmpegError, EOFError, ValueError):
        return []


class _Resampler:
    """Decoded sound to stereo samples at ``SOUND_RATE``. The format may change on the way."""

    def __init__(self) -> None:
        self.format: tuple[str, str, int] | None = None
        self.resampler: Any = None
        self.next = 0.0  # the second of the next sample

    def __call__(self, frame: Any, at: float) -> Iterator[tuple[float, NDArray[np.float32]]]:
        found = (frame.format.name, frame.layout.name, frame.sample_rate)
        if found != self.format:
            self.format, self.next = found, at
            self.resampler = require_av().AudioResampler("fltp", "stereo", SOUND_RATE)
        if abs(at - self.next) > _JUMP:  # a gap in the file
            self.next = at
        frame.pts = None  # times are counted here, because a jump would confuse the resampler
        for part in self._parts(frame):
            samples = np.asarray(part.to_ndarray(), np.float32)
            yield self.next, samples
            self.next += samples.shape[1] / SOUND_RATE

    def _parts(self, frame: Any) -> list[Any]:
        try:
            return list(self.resampler.resample(frame))
        except (require_av().error.FFmpegError, ValueError):  # a layout of channels that is not known
            return []
