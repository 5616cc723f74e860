"""Open a file with FFmpeg and choose the stream to watch: what the default reader, clips and thumbnails share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from prvr.media.buckets import VideoFile
from prvr.media.checked import expected_of, for_ffmpeg, open_checked
from prvr.media.errors import MediaError
from prvr.media.packages import require_av

# Formats that FFmpeg opens although they are text, pictures, or lists that point to other files.
_NOT_VIDEO = {"tty", "image2", "hls", "concat", "dash", "ffmetadata", "lrc", "sdp", "rtsp", "imf", "lavfi"}
_READ_SECONDS = 300.0  # for FFmpeg to open a file, or to find its next packet
_LIMIT = {"max_pixels": "64000000"}  # of one picture of a video: twice as many as 8K has
_STREAMS = 100  # of a file, for which the limit holds while it is opened


@contextmanager
def open_container(path: VideoFile) -> Iterator[Any]:
    """FFmpeg's container of a file, open within a ``with`` statement.

    Raises:
        MediaError: FFmpeg cannot open the file.
    """
    av = require_av()
    with ExitStack() as stack:
        # A file must not make us open others: from a network, or from this machine if it lies in a bucket.
        try:
            if isinstance(path, Path) and expected_of(path) is None:
                allowed, source = "file", str(path)
            else:
                allowed, source = for_ffmpeg(path, stack.enter_context(open_checked(path)))
            container = stack.enter_context(open_limited(av, source, allowed, _LIMIT, _READ_SECONDS))
        except av.error.InvalidDataError as problem:
            reason = "is not a video that FFmpeg knows, or it is damaged, encrypted or cut short before its index"
            raise MediaError(path, reason) from problem
        except (av.error.FFmpegError, OSError, ValueError) as problem:
            raise MediaError(path, f"cannot be opened: {error_text(problem)}") from problem
        yield container


def open_limited(av: Any, source: Any, allowed: str, limits: dict[str, str], timeout: float | None = None) -> Any:
    """FFmpeg's container, opened for reading. It decodes pictures already while it opens a file.

    Args:
        av: the package.
        source: a path, or a file to read from.
        allowed: the protocols that the file may use.
        limits: options of the decoders that are used then; who decodes later sets them again.
        timeout: seconds for opening a file, and for finding its next packet.
    """
    protocols = {"protocol_whitelist": allowed}
    if int(av.__version__.partition(".")[0]) >= 19:
        return av.open(source, options=limits, container_options=protocols, timeout=timeout)
    how: dict[str, Any] = {"options": protocols, "metadata_errors": "replace", "timeout": timeout}
    try:
        return av.open(source, stream_options=[limits] * _STREAMS, **how)
    except ValueError:  # a format whose streams are known only when it is open, such as MPEG-TS
        if not isinstance(source, str):
            source.seek(0)
        return av.open(source, **how)


def video_stream(container: Any, path: VideoFile) -> Any:
    """The first video stream of a container. The cover picture of a song does not count.

    Raises:
        MediaError: the container has none, or FFmpeg cannot decode it.
    """
    format_name = container.format.name
    if _NOT_VIDEO & set(format_name.split(",")) or format_name.endswith("_pipe"):
        kind = "a picture" if format_name.endswith("_pipe") or format_name == "image2" else "a text or a play list"
        raise MediaError(path, f"is not a video: FFmpeg reads it as {kind} ({format_name})")
    attached = require_av().stream.Disposition.attached_pic
    streams = [stream for stream in container.streams.video if not stream.disposition & attached]
    if not streams:
        kinds = sorted({stream.type for stream in container.streams})
        if kinds:
            raise MediaError(path, f"has no video stream, only: {', '.join(kinds)}")
        raise MediaError(path, "has no streams: it is damaged or cut short")
    if streams[0].codec_context is None:
        raise MediaError(path, "has a video codec that this FFmpeg does not know")
    streams[0].codec_context.options = _LIMIT
    return streams[0]


def demuxed(container: Any, *streams: Any) -> Iterator[Any]:
    """The packets of streams, in the order of the file.

    A broadcast may gain streams on the way. PyAV does not know those and stops at their packets, so it is started again
    after each.
    """
    while True:
        try:
            yield from container.demux(*streams)
            return
        except IndexError:
            continue


def start_seconds(container: Any) -> float | None:
    """The presentation time that a player shows as zero; None where the file does not state it."""
    return None if container.start_time is None else container.start_time / require_av().time_base


def error_text(problem: BaseException) -> str:
    """What FFmpeg says about an error."""
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
