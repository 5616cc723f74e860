"""One video file to what the library keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from prvr.library.catalogue import NewVideo
from prvr.library.pending import Indexed, Pending
from prvr.library.sources import Source, digest, subtitle_signature
from prvr.library.tracks import FRAMES, TEXT, Piece, Track, timed
from prvr.media.encoders.base import Encoder
from prvr.media.errors import MediaError
from prvr.media.features import FeaturePart, feature_parts
from prvr.media.reader import VideoReader, open_video
from prvr.media.subtitles import TimedLine, subtitle_tracks

Seen = Callable[[float, float | None], None]  # seconds looked at, of how many
_LINES_AT_ONCE = 512


def index_file(
    folder: Path, source: Source, tracks: Mapping[str, Track], rate: float, tags: tuple[str, ...], seen: Seen
) -> Indexed:
    """Decode and encode a file. What is wrong with it becomes its ``problem``; nothing of that is raised."""
    video = NewVideo(source.path, source.size, source.mtime, digest="", tags=tags)
    try:
        video = replace(video, digest=digest(source.path), subtitles=subtitle_signature(source.path))
        with open_video(source.path) as opened:
            return _index_open(folder, video, opened, tracks, rate, seen)
    except MediaError as problem:
        return Indexed(replace(video, state="failed", problem=problem.reason))
    except (ValueError, ArithmeticError) as problem:  # an encoder that gives no numbers
        return Indexed(replace(video, state="failed", problem=str(problem)))
    except OSError as problem:
        if problem.filename is not None and Path(str(problem.filename)) == source.path:
            return Indexed(replace(video, state="failed", problem=f"cannot be read: {problem.strerror}"))
        raise


def _index_open(
    folder: Path, video: NewVideo, opened: VideoReader, tracks: Mapping[str, Track], rate: float, seen: Seen
) -> Indexed:
    frames = tracks[FRAMES]
    assert isinstance(frames.encoder, Encoder)
    info, count = opened.info, 0

    def counted(parts: Iterator[FeaturePart]) -> Iterator[FeaturePart]:
        nonlocal count
        for part in parts:
            count += len(part.times)
            seen(float(part.times[-1]), info.duration)
            yield part

    pictures = Pending(folder)
    for section in frames.sections(timed(counted(feature_parts(opened, frames.encoder, rate)), rate)):
        pictures.add(section)
    if count == 0:
        raise MediaError(video.path, opened.problem or "no picture could be decoded from it")
    problem = opened.problem
    made = {FRAMES: pictures}
    lines: tuple[TimedLine, ...] = ()
    if TEXT in tracks:
        try:
            lines = _lines(video.path)
        except MediaError as unread:
            problem = f"subtitles: {unread.reason}" if problem is None else problem
        if lines:
            made[TEXT] = Pending(folder)
            for section in tracks[TEXT].sections(_spoken(lines, tracks[TEXT])):
                made[TEXT].add(section)
    known = replace(
        video,
        problem=problem,
        duration=info.duration if info.duration is not None else count / rate,
        width=info.width,
        height=info.height,
        fps=info.fps,
        frames=count,
    )
    return Indexed(known, made, lines)


def _lines(path: Path) -> tuple[TimedLine, ...]:
    """What is said, by time; where there are several tracks of subtitles, all of them."""
    lines = {line for track in subtitle_tracks(path) for line in track.lines}
    return tuple(sorted(lines, key=lambda line: (line.start, line.end, line.text)))


def _spoken(lines: tuple[TimedLine, ...], track: Track) -> Iterator[Piece]:
    for first in range(0, len(lines), _LINES_AT_ONCE):
        some = lines[first : first + _LINES_AT_ONCE]
        vectors = track.encoder.encode_texts([line.text for line in some])
        yield Piece(vectors, np.array([(line.start, line.end) for line in some]))
