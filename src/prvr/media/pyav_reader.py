"""The default reader: PyAV, which carries its own FFmpeg.

Frames are decoded in sequence and only the sampled ones are converted, scaled on the way. Where samples lie further
apart than key frames, seeking to each is faster and gives the same pictures (`python benchmarks/media_decode.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from prvr.media.errors import MediaError, MissingExtra
from prvr.media.frames import Fit, Frame, Image, StreamInfo, VideoInfo
from prvr.media.reader import VideoReader
from prvr.media.sampling import PresentationClock, Sampler

try:
    import av
    from av.video.reformatter import VideoReformatter
except ImportError as problem:  # pragma: no cover
    raise MissingExtra("PyAV, which decodes videos,", "media", problem) from problem

# Formats that FFmpeg opens although they are text, pictures, or lists that point to other files.
_NO_VIDEO_FILE = {"tty", "image2", "hls", "concat", "dash", "ffmetadata", "lrc", "sdp", "rtsp", "imf", "lavfi"}
_SEEK_PAYS = 1.5  # seek where the gap between samples is so many times the gap between key frames
_DEFAULT_GAP = 1 / 25  # seconds between frames where nothing is known
_LOCAL = {"protocol_whitelist": "file"}  # a file must not make us fetch another from a network


class PyAVReader(VideoReader):
    """A video file behind PyAV."""

    decoder = f"pyav {av.__version__}"

    def __init__(self, path: Path, threads: int = 0):
        self.path, self.threads = path, threads
        with open_container(self.path) as container:
            stream = video_stream(container, path)
            self.info = self._look(container, stream)

    def _look(self, container: Any, stream: Any) -> VideoInfo:
        """Facts, of which size and rotation come from a first decoded picture: a file without one is no use."""
        stream.thread_type = "SLICE"  # the first picture without waiting for others
        lost: list[str] = []
        first = next(_decoded(container, stream, lost), None)
        if first is None:
            because = f" ({lost[0]})" if lost else ""
            raise MediaError(self.path, f"no picture could be decoded{because}: damaged, encrypted or cut short")
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
            streams=tuple(_stream_info(each) for each in container.streams),
        )

    def frames(self, rate: float = 1.0, fit: Fit | None = None) -> Iterator[Frame]:
        sampler = Sampler[Any](rate)
        convert = _Converter(self.info, fit)
        self.problem = None
        lost: list[str] = []
        with open_container(self.path) as container:
            stream = video_stream(container, self.path)
            stream.codec_context.thread_count = self.threads
            gap = 1 / self.info.fps if self.info.fps else _DEFAULT_GAP
            between_keys = _key_frame_gap(stream)
            if between_keys is not None and 1 / rate > _SEEK_PAYS * between_keys:
                stream.thread_type = "SLICE"  # threads over frames would decode ahead of every jump
                timed = self._timed_by_seeking(container, stream, gap, between_keys, sampler, lost)
            else:
                stream.thread_type = "AUTO"
                timed = self._timed(container, stream, gap, lost)
            hold = gap
            for time, picture in timed:
                hold = _seconds(picture.duration, stream) or gap
                for due, shown in sampler.push(time, picture):
                    yield Frame(due, convert(shown))
            for due, shown in sampler.finish(hold):
                yield Frame(due, convert(shown))
            end = sampler.held[0] + hold if sampler.held is not None else 0.0
            self.problem = _problem(lost, end, _picture_duration(container, stream))

    def _timed(self, container: Any, stream: Any, gap: float, lost: list[str]) -> Iterator[tuple[float, Any]]:
        """All frames with times that only grow."""
        clock, origin = PresentationClock(gap, self.info.duration), start_seconds(container)
        for picture in _decoded(container, stream, lost):
            if origin is None:
                origin = picture.time or 0.0
            yield clock(None if picture.time is None else picture.time - origin), picture

    def _timed_by_seeking(
        self, container: Any, stream: Any, gap: float, between_keys: float, sampler: Sampler[Any], lost: list[str]
    ) -> Iterator[tuple[float, Any]]:
        """Only the frames from the last key frame before each sample up to it."""
        origin, last, sought = start_seconds(container), -np.inf, -1
        jumped = True
        while jumped:
            jumped = False
            for picture in _decoded(container, stream, lost):
                if origin is None:
                    origin = picture.time or 0.0
                time = max(0.0, picture.time - origin) if picture.time is not None else last + gap
                if time <= last:  # a jump lands on a key frame, which may lie before what has been seen
                    continue
                last = time
                yield time, picture
                if sampler.due - time > between_keys and sampler.taken != sought:
                    sought = sampler.taken  # one jump per sample: where none helps, go on decoding
                    try:
                        container.seek(round((sampler.due + origin) / stream.time_base), stream=stream)
                    except av.error.FFmpegError as problem:
                        lost.append(_words(problem))
                        continue
                    jumped = True
                    break


def open_container(path: Path) -> Any:
    """FFmpeg's container of a file, to be closed by ``with``; a ``MediaError`` where it has none."""
    try:
        return av.open(str(path), options=dict(_LOCAL), metadata_errors="replace")
    except av.error.InvalidDataError as problem:
        reason = "is no video that FFmpeg knows, or it is damaged, encrypted or cut short before its index"
        raise MediaError(path, reason) from problem
    except (av.error.FFmpegError, ValueError) as problem:
        raise MediaError(path, f"cannot be opened: {_words(problem)}") from problem


class _Converter:
    """Decoded pictures to upright RGB arrays of one size, each converted once even when it is shown for long."""

    def __init__(self, info: VideoInfo, fit: Fit | None):
        self.fit = fit
        self.turns = info.rotation // 90
        width, height = fit.scaled(info.width, info.height) if fit else (info.width, info.height)
        self.size = (height, width) if self.turns % 2 else (width, height)
        self.reformatter = VideoReformatter()
        self.last: tuple[Any, Image] | None = None

    def __call__(self, picture: Any) -> Image:
        if self.last is not None and self.last[0] is picture:
            return self.last[1]
        scaled = self.reformatter.reformat(picture, *self.size, "rgb24", interpolation="BICUBIC")
        image = np.asarray(scaled.to_ndarray(), np.uint8)
        if self.turns:
            image = np.ascontiguousarray(np.rot90(image, -self.turns))
        if self.fit is not None and self.fit.mode == "cover":
            image = self.fit.cut(image)
        self.last = (picture, image)
        return image


def video_stream(container: Any, path: Path) -> Any:
    """The stream to watch; a song's cover picture is none."""
    format_name = container.format.name
    if _NO_VIDEO_FILE & set(format_name.split(",")) or format_name.endswith("_pipe"):
        kind = "a picture" if format_name.endswith("_pipe") or format_name == "image2" else "a text or a play list"
        raise MediaError(path, f"is no video: FFmpeg takes it for {kind} ({format_name})")
    attached = av.stream.Disposition.attached_pic
    found = [stream for stream in container.streams.video if not stream.disposition & attached]
    if not found:
        kinds = sorted({stream.type for stream in container.streams})
        has = f"has no video stream, only: {', '.join(kinds)}" if kinds else "holds no stream: damaged or cut short"
        raise MediaError(path, has)
    if found[0].codec_context is None:
        raise MediaError(path, "its video codec is unknown to this FFmpeg")
    return found[0]


def _decoded(container: Any, stream: Any, lost: list[str]) -> Iterator[Any]:
    """Every picture that decodes. What does not is noted in ``lost``, and decoding goes on behind it."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except (av.error.FFmpegError, OSError) as problem:  # the file ends in the middle of something
            lost.append(_words(problem))
            packet = None
        try:
            for picture in (packet if packet is not None else stream.codec_context).decode():
                if picture.is_corrupt:
                    lost.append("a picture that is only partly there")
                yield picture
        except EOFError:
            return
        except (av.error.FFmpegError, ValueError) as problem:
            lost.append(_words(problem))
        if packet is None:
            return


def _problem(lost: list[str], end: float, duration: float | None) -> str | None:
    """What to tell about a file that did not decode completely."""
    if duration is not None and end < duration - max(1.0, 0.05 * duration):
        return f"breaks off at {end:.1f} s of {duration:.1f} s" + (f" ({lost[-1]})" if lost else "")
    if lost:
        return f"{len(lost)} damaged place{'s' if len(lost) > 1 else ''} skipped ({lost[0]})"
    return None


def _duration(container: Any, stream: Any) -> float | None:
    """How long the file says it is."""
    whole = container.duration / av.time_base if container.duration and container.duration > 0 else None
    return _seconds(stream.duration, stream) or whole


def _picture_duration(container: Any, stream: Any) -> float | None:
    """How long the file says its pictures go on; None where it speaks of pictures and sound together."""
    own = _seconds(stream.duration, stream)
    return own or (None if len(container.streams) > 1 else _duration(container, stream))


def _seconds(ticks: int | None, stream: Any) -> float | None:
    return float(ticks * stream.time_base) if ticks is not None and ticks > 0 and stream.time_base else None


def start_seconds(container: Any) -> float | None:
    """The presentation time that a player shows as zero."""
    return None if container.start_time is None else container.start_time / av.time_base


def _key_frame_gap(stream: Any) -> float | None:
    """Mean seconds between key frames, by the index at the head of the file; None where there is none."""
    entries = stream.index_entries
    keys = [entries[i].timestamp for i in range(min(len(entries), 20_000)) if entries[i].is_keyframe]
    return float((keys[-1] - keys[0]) / (len(keys) - 1) * stream.time_base) if len(keys) > 1 else None


def _stream_info(stream: Any) -> StreamInfo:
    codec = stream.codec_context.name if stream.codec_context is not None else "unknown"
    return StreamInfo(stream.type, codec, stream.language)


def _words(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
