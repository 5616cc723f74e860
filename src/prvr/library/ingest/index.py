"""One video file to what the library keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from prvr.library.ingest.files import Source, digest, subtitle_signature
from prvr.library.ingest.tracks import FRAMES, TEXT, Piece, Track, timed
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.pending import Indexed, Pending
from prvr.media.encoders.base import Encoder
from prvr.media.errors import MediaError
from prvr.media.features import FeaturePart, feature_parts
from prvr.media.frames import VideoInfo
from prvr.media.reader import open_video
from prvr.media.subtitles import TimedLine, subtitle_tracks

Seen = Callable[[float, float | None], None]  # seconds looked at, of how many
_LINES_AT_ONCE = 512


def index_file(
    folder: Path, source: Source, tracks: Mapping[str, Track], rate: float, tags: tuple[str, ...], seen: Seen
) -> Indexed:
    """Decode and encode a file. What is wrong with it becomes its ``problem``; nothing of that is raised."""
    video = new_video(source, tags)
    try:
        video = fingerprinted(video)
        with open_video(source.path) as opened:
            encoder = tracks[FRAMES].encoder
            assert isinstance(encoder, Encoder)
            parts = feature_parts(opened, encoder, rate)
            return index_parts(folder, video, opened, parts, tracks, rate, seen)
    except FILE_PROBLEMS as problem:
        return failed(video, problem)


FILE_PROBLEMS = (MediaError, ValueError, ArithmeticError, OSError)  # what may be a file's own fault


def new_video(source: Source, tags: tuple[str, ...]) -> NewVideo:
    return NewVideo(source.path, source.size, source.mtime, digest="", tags=tags)


def fingerprinted(video: NewVideo) -> NewVideo:
    """With what tells whether the file has changed."""
    return replace(video, digest=digest(video.path), subtitles=subtitle_signature(video.path))


def failed(video: NewVideo, problem: Exception) -> Indexed:
    """A file that cannot be indexed, with the reason; what is no fault of the file is raised again."""
    return Indexed(replace(video, state="failed", problem=reason(problem, video.path)))


def reason(problem: Exception, path: Path) -> str:
    """What is wrong with a file, in words; what is no fault of the file is raised again."""
    if isinstance(problem, MediaError):
        return problem.reason
    if not isinstance(problem, OSError):  # an encoder that gives no numbers
        return str(problem)
    if problem.filename is not None and Path(str(problem.filename)) == path:
        return f"cannot be read: {problem.strerror}"
    raise problem


class Opened(Protocol):
    """What there is to know of a file besides its frames; ``problem`` counts when all of them have been seen."""

    @property
    def info(self) -> VideoInfo: ...
    @property
    def problem(self) -> str | None: ...


def index_parts(
    folder: Path,
    video: NewVideo,
    opened: Opened,
    parts: Iterator[FeaturePart],
    tracks: Mapping[str, Track],
    rate: float,
    seen: Seen,
) -> Indexed:
    """What the library keeps of a file whose frames have been encoded, and of its subtitles."""
    info, count = opened.info, 0

    def counted() -> Iterator[FeaturePart]:
        nonlocal count
        for part in parts:
            count += len(part.times)
            seen(float(part.times[-1]), info.duration)
            yield part

    pictures = Pending(folder)
    for section in tracks[FRAMES].sections(timed(counted(), rate)):
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
