"""Cut a part of a video into a new file, with pictures and sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prvr.files import whole_file
from prvr.media.buckets import VideoFile
from prvr.media.clip_reader import ShownPicture, read_stretch
from prvr.media.clip_writer import ClipWriter
from prvr.media.containers import error_text
from prvr.media.errors import MediaError
from prvr.media.frames import USUAL_RATE, VideoInfo
from prvr.media.packages import require_av
from prvr.media.reader import open_video, require_file

CLIP_PROGRAM = "prvr.media.clip_server"  # run with `python -m`, to cut in a separate process
LONGEST_SIDE = 3840  # pixels; browsers on phones decode no larger H.264


def cut_clip(
    source: str | VideoFile,
    start: float,
    end: float,
    out: str | Path,
    *,
    longest_side: int = LONGEST_SIDE,
    progress: Callable[[float], None] = lambda seconds: None,
) -> Path:
    """Write ``source`` from ``start`` to ``end`` (seconds) to an .mp4 file that every browser plays; returns its path.

    The part is encoded again (H.264 and AAC), so that it begins and ends exactly there and not at the nearest key
    frame. Pictures are upright and have even sides, square pixels and 8 bits. Their times are kept, also where the rate
    varies.

    Args:
        source: the video, or its address in a bucket.
        start: where the clip begins.
        end: where it ends; a video that ends earlier gives a shorter clip.
        out: the file. It appears, or replaces another, when it is complete.
        longest_side: larger pictures are scaled down to this width or height, in pixels.
        progress: called with the seconds that are written.

    Raises:
        MediaError: the file is not a video, or nothing can be decoded between the two times.
        ValueError: the times are not a part of a video.
    """
    if not 0 <= start < end:
        raise ValueError(f"A clip starts at 0 s or later and ends after its start; got {start} to {end}.")
    av, written = require_av(), 0.0
    info = open_video(require_file(source)).info
    size, rate = clip_size(info, longest_side), info.fps or USUAL_RATE
    with whole_file(Path(out)) as unfinished:
        try:
            with ClipWriter(unfinished, size, rate, sound=has_sound(info)) as clip:
                for part in read_stretch(info.path, start, end):
                    if isinstance(part, ShownPicture):
                        clip.picture(part)
                        progress(part.end)
                    else:
                        clip.sound(part)
                written = clip.end
        except (av.error.FFmpegError, ValueError) as problem:  # PyAV raises both
            raise MediaError(info.path, f"a clip could not be written: {error_text(problem)}") from problem
        if not written:
            raise nothing_there(info.path, start, end)
    return Path(out)


def nothing_there(source: VideoFile, start: float, end: float) -> MediaError:
    """The error of a stretch without pictures."""
    return MediaError(source, f"no frame could be decoded between {start:.1f} and {end:.1f} s")


def has_sound(info: VideoInfo) -> bool:
    """Whether a video has a sound track that can be decoded."""
    return any(stream.kind == "audio" and stream.codec != "unknown" for stream in info.streams)


def clip_size(info: VideoInfo, longest_side: int = LONGEST_SIDE) -> tuple[int, int]:
    """Width and height of a clip of a video: its own, made even, at most ``longest_side``."""
    scale = min(1.0, longest_side / max(info.width, info.height))
    width, height = (max(2, int(side * scale) // 2 * 2) for side in (info.width, info.height))
    return width, height
