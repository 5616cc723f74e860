"""Decode and encode video files into what the library stores of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from prvr.library.ingest.files import INSIDE, NO_LINES, Fingerprint, SourceFile
from prvr.library.ingest.tracks import FRAMES, TEXT, Piece, Track, timed_pieces
from prvr.library.store.buffer import IndexedVideo, SectionBuffer
from prvr.library.store.catalogue import SPEECH, NewVideo
from prvr.library.store.settings import LibrarySettings
from prvr.media import (
    Encoder,
    FeaturePart,
    MediaError,
    PlainEncoder,
    Sampling,
    TimedLine,
    Transcriber,
    VideoFile,
    VideoInfo,
    decode_videos,
    decodes_in_processes,
    encode_videos,
    start_decoders_early,
    subtitle_tracks,
    video_path,
)


class FileProgress(Protocol):
    """Called with the seconds of video that are encoded, how many there are, and those that were transcribed."""

    def __call__(self, seconds: float, duration: float | None, heard: float | None = None) -> None: ...


@dataclass(frozen=True)
class Decoding:
    """How files are decoded."""

    processes: int | None = None  # None: one for each core; 1: in this process
    files: int = 1 << 30  # that will come, where it is known: fewer than processes are decoded with several threads
    bytes: int = 0  # of these files
    threads: int = 0  # of a decoder in this process; 0 uses all cores

    @property
    def is_long(self) -> bool:
        """Whether it takes so long that processes are started at once."""
        return self.bytes > _MUCH_BYTES or _MUCH_FILES < self.files < 1 << 30

    def start_early(self, settings: LibrarySettings) -> None:
        """Begin to start the processes, while this one loads what encodes; not where it is unknown what that is."""
        many = decodes_in_processes(self.processes, self.files, self.bytes)  # of one file, these are its bytes
        if self.is_long and many and settings.encoder and settings.decoder == "pyav":
            start_decoders_early(needs_torch=settings.encoder not in PlainEncoder.names)


FILE_PROBLEMS = (MediaError, ValueError, ArithmeticError, OSError)  # that may be the fault of the file
_LINES_AT_ONCE = 512
_MUCH_BYTES, _MUCH_FILES = 16 << 20, 24  # of files that take long enough to start processes at once


def index_files(
    scratch: Path | None,
    videos: Iterable[NewVideo],
    tracks: Mapping[str, Track],
    rate: float,
    progress: Callable[[NewVideo], FileProgress],
    transcriber: Transcriber | None = None,
    decoding: Decoding = Decoding(),  # noqa: B008 (it does not change)
    lines: bool = True,
) -> Generator[IndexedVideo, None, None]:
    """Decode and encode files, and yield them in their order. If one is faulty, the result says why.

    Args:
        scratch: folder for temporary files; None: the system's.
        videos: the files. They are pulled some way ahead, to be decoded at the same time.
        tracks: by name, how sections are made.
        rate: frames per second.
        progress: called when a file's turn has come; the result is called while it is encoded.
        transcriber: writes down what is said if there are no subtitles.
        decoding: in how many processes.
        lines: read subtitles.
    """
    encoder = tracks[FRAMES].encoder
    assert isinstance(encoder, Encoder)
    pulled = deque[NewVideo]()

    def paths() -> Iterator[VideoFile]:
        for video in videos:
            pulled.append(video)
            yield video.path

    how = Sampling.of(encoder, rate, tracks[FRAMES].repeats, tracks[FRAMES].decoder)
    with (
        closing(
            decode_videos(
                paths(), how, decoding.processes, decoding.files, decoding.threads, 0.0 if decoding.is_long else None
            )
        ) as files,
        closing(encode_videos(files, encoder)) as encoded,
    ):
        for opened in encoded:
            video = pulled.popleft()
            told = progress(video)
            told(0.0, None)  # before anything can go wrong with the file
            try:
                yield index_parts(scratch, video, opened, opened.parts(), tracks, rate, told, transcriber, lines)
            except FILE_PROBLEMS as problem:
                yield failed_video(video, problem)


def index_file(
    scratch: Path | None,
    video: NewVideo,
    tracks: Mapping[str, Track],
    rate: float,
    progress: FileProgress,
    decode_threads: int = 0,
    transcriber: Transcriber | None = None,
) -> IndexedVideo:
    """Decode and encode one file in this process. If the file is faulty, the result says why."""
    decoding = Decoding(processes=1, files=1, threads=decode_threads)
    (indexed,) = index_files(scratch, [video], tracks, rate, lambda _: progress, transcriber, decoding)
    return indexed


def new_video(source: SourceFile, fingerprint: Fingerprint | None, tags: tuple[str, ...]) -> NewVideo:
    """A video that is about to be indexed; without a fingerprint if its file could not be read."""
    digest, subtitles = ("", "") if fingerprint is None else (fingerprint.digest, fingerprint.subtitles)
    return NewVideo(source.path, source.size, source.mtime, digest=digest, subtitles=subtitles, tags=tags)


def failed_video(video: NewVideo, problem: Exception) -> IndexedVideo:
    """A file that cannot be indexed, with the reason. Problems that are not the file's fault are raised again."""
    return IndexedVideo(replace(video, state="failed", problem=failure_reason(problem, video.path)))


def failure_reason(problem: Exception, path: VideoFile) -> str:
    """What is wrong with a file. Problems that are not the file's fault are raised again."""
    if isinstance(problem, MediaError):
        return problem.reason
    if not isinstance(problem, OSError):  # the encoder returned NaN
        return str(problem)
    if problem.filename is not None and video_path(str(problem.filename)) == path:
        return f"cannot be read: {problem.strerror}"
    raise problem


class OpenedVideo(Protocol):
    """What is known of an open file besides its frames. ``problem`` is complete after the last frame."""

    @property
    def info(self) -> VideoInfo: ...
    @property
    def problem(self) -> str | None: ...


def index_parts(
    scratch: Path | None,
    video: NewVideo,
    opened: OpenedVideo,
    parts: Iterator[FeaturePart],
    tracks: Mapping[str, Track],
    rate: float,
    progress: FileProgress,
    transcriber: Transcriber | None = None,
    with_lines: bool = True,
) -> IndexedVideo:
    """Cut encoded frames and subtitles into sections.

    Args:
        scratch: folder for temporary files; None: the system's.
        video: facts about the file.
        opened: the open file.
        parts: its encoded frames, in order of time.
        tracks: by name, how sections are made.
        rate: frames per second.
        progress: called after each part.
        transcriber: writes down what is said if there are no subtitles.
        with_lines: read subtitles; without, they stay as they are.
    """
    info, count, repeats = opened.info, 0, 0

    def counted() -> Iterator[FeaturePart]:
        nonlocal count, repeats
        for part in parts:
            count += len(part.times)
            repeats += part.repeats
            progress(float(part.times[-1]), info.duration)
            yield part

    pictures = SectionBuffer(scratch)
    for section in tracks[FRAMES].sections(timed_pieces(counted(), rate)):
        pictures.add(section)
    if count == 0:
        raise MediaError(video.path, opened.problem or "no picture could be decoded from it")
    problem = opened.problem
    sections = {FRAMES: pictures}
    lines: tuple[TimedLine, ...] = ()
    subtitles, unread = video.subtitles, None
    if with_lines:
        lines, subtitles, unread = _read_lines(
            video,
            tracks[FRAMES].decoder != "pyav" or any(stream.kind == "subtitle" for stream in info.streams),
            transcriber,
            lambda heard: progress(info.duration or count / rate, info.duration, heard=heard),
        )
    if lines and TEXT in tracks:
        sections[TEXT] = SectionBuffer(scratch)
        for section in tracks[TEXT].sections(_line_pieces(lines, tracks[TEXT])):
            sections[TEXT].add(section)
    facts = replace(
        video,
        subtitles=subtitles,
        problem=unread if problem is None else problem,
        duration=info.duration if info.duration is not None else count / rate,
        width=info.width,
        height=info.height,
        fps=info.fps,
        frames=count,
    )
    return IndexedVideo(facts, sections, lines, repeats)


def _read_lines(
    video: NewVideo, inside: bool, transcriber: Transcriber | None, heard: Callable[[float], None]
) -> tuple[tuple[TimedLine, ...], str, str | None]:
    """Lines of subtitles, or of what is said; where they come from; and what is wrong with them.

    ``inside``: whether subtitles may be in the file. If not, it is not opened again to look for them.
    """
    beside = f"|{video.subtitles}" if video.subtitles else ""
    problem, lines = None, tuple[TimedLine, ...]()
    try:
        lines = _subtitle_lines(video.path, inside)
    except MediaError as unread:
        problem = f"subtitles: {unread.reason}"
    if lines:
        return lines, video.subtitles or INSIDE, problem
    none = f"{NO_LINES}{beside}" if beside else ""
    if transcriber is None:
        return lines, none, problem
    try:
        speech = transcriber.transcribe(video.path, heard)
    except MediaError as unheard:
        return lines, none, f"speech: {unheard.reason}"
    language = f", {speech.language}" if speech.language else ""
    return speech.lines, f"{SPEECH}{transcriber.name}{language}{beside}", problem


def _subtitle_lines(path: VideoFile, inside: bool) -> tuple[TimedLine, ...]:
    """The lines of all subtitle tracks, in order of time."""
    lines = {line for track in subtitle_tracks(path, inside=inside) for line in track.lines}
    return tuple(sorted(lines, key=lambda line: (line.start, line.end, line.text)))


def _line_pieces(lines: tuple[TimedLine, ...], track: Track) -> Iterator[Piece]:
    for first in range(0, len(lines), _LINES_AT_ONCE):
        some = lines[first : first + _LINES_AT_ONCE]
        vectors = track.encoder.encode_texts([line.text for line in some])
        yield Piece(vectors, np.array([(line.start, line.end) for line in some]))
