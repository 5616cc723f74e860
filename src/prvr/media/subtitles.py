"""Subtitles: files next to a video (.srt, .vtt) and text tracks inside it.

    for track in subtitle_tracks("holiday.mp4"):      # holiday.srt, holiday.en.vtt, embedded tracks
        for line in track.lines:
            print(line.start, line.end, line.text)

Real subtitle files are messy. The parser reads everything that has a timing line, and never fails.
"""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr.media.buckets import VideoFile, video_path
from prvr.media.checked import open_checked
from prvr.media.containers import demuxed, open_container
from prvr.media.errors import MediaError

_MOST_BYTES = 64 << 20  # of a subtitle file; those of a long film have a quarter of a megabyte
SUBTITLE_SUFFIXES = (".srt", ".vtt")
_TEXT_CODECS = {"subrip", "srt", "ass", "ssa", "mov_text", "webvtt", "text"}
_TIME = r"(?:(\d{1,4})\s*:\s*)?(\d{1,3})\s*:\s*(\d{1,3})(?:\s*[.,:]\s*(\d{1,6}))?"
_TIMING = re.compile(rf"^\s*{_TIME}\s*-{{1,3}}\s?>\s*{_TIME}", re.ASCII)
_TAG = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?")


@dataclass(frozen=True)
class TimedLine:
    """A line of text that is shown from ``start`` to ``end`` (seconds)."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class SubtitleTrack:
    """The lines of one subtitle file or text track, in order of time; ``source`` names it."""

    source: str
    language: str | None
    lines: tuple[TimedLine, ...]


def subtitle_tracks(video: str | VideoFile, *, inside: bool = True) -> list[SubtitleTrack]:
    """All text tracks of a video: files next to it first, then those inside it. Empty tracks are left out.

    Args:
        video: the file, or its address in a bucket.
        inside: look for tracks inside it, for which it must be opened.

    Raises:
        MediaError: the video cannot be opened, or a subtitle file cannot be read; it names that file.
    """
    video = video_path(video)
    tracks = [read_subtitles(path) for path in subtitle_files(video)]
    return [track for track in [*tracks, *(embedded_tracks(video) if inside else ())] if track.lines]


def subtitle_files(video: VideoFile) -> list[VideoFile]:
    """The subtitle files next to a video: those with its name, with or without a language.

    ``a.srt``, ``a.en.srt`` and ``a.en.forced.vtt`` belong to ``a.mp4``; ``a.b.srt`` does not where ``a.b.mp4`` exists.
    """
    folder, stem = video.parent, video.stem
    try:
        names = os.listdir(folder) if isinstance(folder, Path) else [each.name for each in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    beside = sorted(folder / name for name in names if name.startswith(stem))  # few of a large folder
    others = {p.stem for p in beside if p.suffix.lower() not in SUBTITLE_SUFFIXES} - {stem}
    return [
        p
        for p in beside
        if p.suffix.lower() in SUBTITLE_SUFFIXES
        and (p.stem == stem or (p.stem.startswith(f"{stem}.") and p.stem not in others))
        and p.is_file()
    ]


def read_subtitles(path: VideoFile) -> SubtitleTrack:
    """Read a subtitle file in any text encoding."""
    try:
        with open_checked(path) as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        raise MediaError(path, f"cannot be read: {problem.strerror}") from problem
    if len(raw) > _MOST_BYTES:
        raise MediaError(path, f"is larger than {_MOST_BYTES >> 20} MiB: these are no subtitles")
    languages = [part for part in path.stem.split(".")[1:] if _LANGUAGE.fullmatch(part)]
    language = languages[0].lower() if languages else None
    return SubtitleTrack(path.name, language, tuple(parse_subtitles(decode_text(raw))))


def decode_text(raw: bytes) -> str:
    """Bytes to text: by byte order mark, else as UTF-8, else as Windows-1252, which accepts any bytes."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if raw.startswith(mark):
            return raw.decode(encoding, errors="replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def parse_subtitles(text: str) -> list[TimedLine]:
    """The lines of an .srt or .vtt text, in order of time.

    A cue is a timing line and the text after it, up to a blank line or the next cue. Everything else (numbers,
    headers, notes, styles) is ignored. A cue that ends before its start lasts zero seconds.

    >>> text = "7\\n00:01,5 --> 00:00:02.000 align:start\\n<i>Hello</i> &amp; bye\\n\\n00:03.0 --> 00:04.0\\nagain"
    >>> parse_subtitles(text)
    [TimedLine(start=1.5, end=2.0, text='Hello & bye'), TimedLine(start=3.0, end=4.0, text='again')]
    """
    cues: list[tuple[float, float, list[str]]] = []
    inside = False
    for line in text.lstrip("\ufeff").splitlines():
        timing = _TIMING.match(line)
        if timing is not None:
            if inside and cues[-1][2] and cues[-1][2][-1].strip().isdigit():
                cues[-1][2].pop()  # the number of this cue, without a blank line before it
            start, end = _seconds(*timing.groups()[:4]), _seconds(*timing.groups()[4:])
            cues.append((start, max(start, end), []))
            inside = True
        elif not line.strip():
            inside = False
        elif inside:
            cues[-1][2].append(line)
    lines = (TimedLine(start, end, plain_text(" ".join(rows))) for start, end, rows in cues)
    return sorted((line for line in lines if line.text), key=lambda line: (line.start, line.end))


def plain_text(text: str) -> str:
    """Text without mark-up, with single blanks."""
    return " ".join(html.unescape(_TAG.sub("", text)).replace("\x00", "").split())


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


def embedded_tracks(video: VideoFile) -> list[SubtitleTrack]:
    """The text tracks inside a file. Subtitles that are pictures (DVD, Blu-ray) are left out."""
    with open_container(video) as container:
        streams = [s for s in container.streams.subtitles if s.codec_context and s.codec_context.name in _TEXT_CODECS]
        lines: dict[int, list[TimedLine]] = {stream.index: [] for stream in streams}
        if streams:
            origin = (container.start_time or 0) / 1e6
            for packet in _packets(container, streams):
                lines[packet.stream.index] += _cues(packet, origin)
        return [
            SubtitleTrack(f"track {s.index}", s.language, tuple(sorted(lines[s.index], key=lambda line: line.start)))
            for s in streams
        ]


def _packets(container: Any, streams: list[Any]) -> Iterator[Any]:
    """Packets until the file ends or cannot be read further; the lines before that are kept."""
    try:
        yield from demuxed(container, *streams)
    except OSError:  # all of FFmpeg's reading errors
        return


def _cues(packet: Any, origin: float) -> list[TimedLine]:
    if packet.pts is None or not packet.size:
        return []
    start = float(packet.pts * packet.time_base) - origin
    length = float((packet.duration or 0) * packet.time_base)
    text = plain_text(_packet_text(packet))
    return [TimedLine(start, start + length, text)] if text and math.isfinite(start) else []


def _packet_text(packet: Any) -> str:
    """The text of a subtitle packet. FFmpeg turns every text codec into ASS events, whose ninth field is the text."""
    try:
        subtitles = packet.decode()
    except (OSError, ValueError):
        return ""
    texts = []
    for subtitle in subtitles:
        dialogue = getattr(subtitle, "dialogue", b"") or getattr(subtitle, "text", b"") or b""
        texts.append(dialogue.decode("utf-8", errors="replace") if isinstance(dialogue, bytes) else str(dialogue))
    return " ".join(texts).replace(r"\N", " ").replace(r"\n", " ").replace(r"\h", " ")
