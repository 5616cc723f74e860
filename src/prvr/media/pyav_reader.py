"""The default reader: PyAV, which carries its own FFmpeg.

Frames are decoded in sequence. Only the sampled ones are converted, and scaled in the same step where the encoder asks
for no certain filter. Where samples are further apart than key frames, the reader seeks to each sample, which is faster
and gives the same pictures (`python benchmarks/media_decode.py`). This module needs PyAV to be imported; ``open_video``
does that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from prvr.media.buckets import VideoFile
from prvr.media.containers import demuxed, error_text, open_container, start_seconds, video_stream
from prvr.media.errors import MediaError
from prvr.media.frames import Fit, Frame, Image, StreamInfo, VideoInfo
from prvr.media.packages import require_av
from prvr.media.reader import VideoReader
from prvr.media.resize import fit_picture
from prvr.media.sampling import PresentationClock, Sampler, longest_still

av = require_av()

SEEK_PAYS = 1.5  # seek where samples are this many times further apart than key frames
DEFAULT_GAP = 1 / 25  # seconds between frames where the file states no rate


class PyAVReader(VideoReader):
    """A video file, decoded by PyAV."""

    decoder = f"pyav {av.__version__}"

    def __init__(self, path: VideoFile, threads: int = 0):
        self.path, self.threads = path, threads
        with open_container(self.path) as container:
            stream = video_stream(container, path)
            self.info = self._inspect(container, stream)

    def _inspect(self, container: Any, stream: Any) -> VideoInfo:
        """Facts about the file. Size and rotation come from its first frame, so one frame must decode."""
        stream.thread_type = "SLICE"  # threads over frames would decode several before returning the first
        lost: list[str] = []
        first = next(decoded_pictures(container, stream, lost), None)
        if first is None:
            because = f" ({lost[0]})" if lost else ""
            raise MediaError(self.path, f"no frame could be decoded{because}: it is damaged, encrypted or cut short")
        rotation = -round(first.rotation / 90) * 90 % 360
        aspect = stream.sample_aspect_ratio or 1
        width, height = max(1, round(first.width * float(aspect))), first.height
        rate = stream.average_rate or stream.guessed_rate
        return VideoInfo(
            path=self.path,
            duration=_duration(container, stream),
            width=height if rotation % 180 else width,
            height=width if rotation % 180 else height,
            rotation=rotation,
            fps=float(rate) if rate else None,
            codec=stream.codec_context.name,
            streams=tuple(_stream_info(stream) for stream in container.streams),
        )

    def _frames(self, rate: float, fit: Fit | None) -> Iterator[Frame]:
        sampler = Sampler[Any](rate)
        convert = PictureConverter(self.info, fit)
        self.problem = None
        lost: list[str] = []
        with open_container(self.path) as container:
            stream = video_stream(container, self.path)
            stream.codec_context.thread_count = self.threads
            gap = 1 / self.info.fps if self.info.fps else DEFAULT_GAP
            between_keys = key_frame_gap(stream)
            if between_keys is not None and 1 / rate > SEEK_PAYS * between_keys:
                stream.thread_type = "SLICE"  # threads over frames would decode too far after every seek
                timed = self._timed_by_seeking(container, stream, gap, between_keys, sampler, lost)
            else:
                stream.thread_type = "AUTO"
                timed = self._timed(container, stream, gap, lost)
            hold = gap
            for time, picture in timed:
                hold = stream_seconds(picture.duration, stream) or gap
                for due, shown in sampler.push(time, picture):
                    yield Frame(due, convert(shown))
            for due, shown in sampler.finish(hold):
                yield Frame(due, convert(shown))
            end = sampler.held[0] + hold if sampler.held is not None else 0.0
            self.problem = decoding_problem(lost, end, picture_duration(container, stream), sampler)

    def _timed(self, container: Any, stream: Any, gap: float, lost: list[str]) -> Iterator[tuple[float, Any]]:
        """All frames, with times that never decrease."""
        clock, origin = PresentationClock(gap, self.info.duration), start_seconds(container)
        for picture in decoded_pictures(container, stream, lost):
            if origin is None:
                origin = picture.time or 0.0
            yield clock(None if picture.time is None else picture.time - origin), picture

    def _timed_by_seeking(
        self, container: Any, stream: Any, gap: float, between_keys: float, sampler: Sampler[Any], lost: list[str]
    ) -> Iterator[tuple[float, Any]]:
        """For each sample, only the frames from the last key frame before it up to the sample."""
        origin, last, sought = start_seconds(container), -np.inf, -1
        seeking = True
        while seeking:
            seeking = False
            for picture in decoded_pictures(container, stream, lost):
                if origin is None:
                    origin = picture.time or 0.0
                time = max(0.0, picture.time - origin) if picture.time is not None else last + gap
                if time <= last:  # a seek lands on a key frame, which may lie before the last frame
                    continue
                last = time
                yield time, picture
                if sampler.due - time > between_keys and sampler.taken != sought:
                    sought = sampler.taken  # one seek per sample; if it does not help, keep decoding
                    try:
                        container.seek(round((sampler.due + origin) / stream.time_base), stream=stream)
                    except av.error.FFmpegError as problem:
                        lost.append(error_text(problem))
                        continue
                    seeking = True
                    break


class PictureConverter:
    """Decoded pictures to upright RGB arrays of one size. A picture that is sampled several times is converted once."""

    def __init__(self, info: VideoInfo, fit: Fit | None):
        self.fit = fit
        self.turns = info.rotation // 90
        quick = fit is not None and fit.filter == "quick"
        width, height = fit.scaled(info.width, info.height) if fit and quick else (info.width, info.height)
        self.size = (height, width) if self.turns % 2 else (width, height)
        self.reformatter = av.video.reformatter.VideoReformatter()
        self.last: tuple[Any, Image] | None = None

    def __call__(self, picture: Any) -> Image:
        if self.last is not None and self.last[0] is picture:
            return self.last[1]
        scaled = self.reformatter.reformat(picture, *self.size, "rgb24", interpolation="BICUBIC")
        image = np.asarray(scaled.to_ndarray(), np.uint8)
        if self.turns:
            image = np.ascontiguousarray(np.rot90(image, -self.turns))
        if self.fit is not None:
            image = fit_picture(image, self.fit)  # a quickly scaled one is only cut
        self.last = (picture, image)
        return image


def decoded_pictures(container: Any, stream: Any, lost: list[str]) -> Iterator[Any]:
    """Every picture that decodes. Errors are appended to ``lost``, and decoding continues after them."""
    packets = demuxed(container, stream)
    while True:
        try:
            packet = next(packets, None)
        except (av.error.FFmpegError, OSError) as problem:  # the file ends in the middle of a packet
            lost.append(error_text(problem))
            packet = None
        try:
            for picture in (packet if packet is not None else stream.codec_context).decode():
                if picture.is_corrupt:
                    lost.append("an incomplete frame")
                yield picture
        except EOFError:
            return
        except (av.error.FFmpegError, ValueError) as problem:
            lost.append(error_text(problem))
        if packet is None:
            return


def decoding_problem(
    lost: list[str], end: float, duration: float | None, sampler: Sampler[Any] | None = None
) -> str | None:
    """Describes what did not decode, or was left out; None where everything was sampled."""
    if sampler is not None and sampler.cut:
        claim = f"claims to last {end / 3600:.0f} hours with {sampler.pictures} pictures"
        return f"{claim}: of repeated pictures, {longest_still(sampler.pictures) / 3600:.0f} h are indexed"
    if duration is not None and end < duration - max(1.0, 0.05 * duration):
        return f"ends early, at {end:.1f} s of {duration:.1f} s" + (f" ({lost[-1]})" if lost else "")
    if lost:
        return f"{len(lost)} damaged place{'s' if len(lost) > 1 else ''} skipped ({lost[0]})"
    return None


def _duration(container: Any, stream: Any) -> float | None:
    """The length that the file states, in seconds."""
    whole = container.duration / av.time_base if container.duration and container.duration > 0 else None
    return stream_seconds(stream.duration, stream) or whole


def picture_duration(container: Any, stream: Any) -> float | None:
    """The length of the pictures; None where the file states only that of pictures and sound together."""
    own = stream_seconds(stream.duration, stream)
    return own or (None if len(container.streams) > 1 else _duration(container, stream))


def stream_seconds(ticks: int | None, stream: Any) -> float | None:
    return float(ticks * stream.time_base) if ticks is not None and ticks > 0 and stream.time_base else None


def key_frame_gap(stream: Any) -> float | None:
    """Mean seconds between key frames, from the index at the start of the file; None where it has no index."""
    entries = stream.index_entries
    keys = [entries[i].timestamp for i in range(min(len(entries), 20_000)) if entries[i].is_keyframe]
    return float((keys[-1] - keys[0]) / (len(keys) - 1) * stream.time_base) if len(keys) > 1 else None


def _stream_info(stream: Any) -> StreamInfo:
    codec = stream.codec_context.name if stream.codec_context is not None else "unknown"
    return StreamInfo(stream.type, codec, stream.language)
