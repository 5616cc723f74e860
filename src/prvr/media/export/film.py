"""Join moments of several videos to one film, and pack them as clips into one .zip file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from prvr.media.clip_reader import ShownPicture, read_stretch
from prvr.media.clip_writer import ClipWriter
from prvr.media.clips import clip_size, cut_clip, has_sound, nothing_there
from prvr.media.containers import error_text
from prvr.media.errors import MediaError
from prvr.media.export.moments import ExportError, ExportMoment, Failures, moments_csv, most_seconds
from prvr.media.frames import USUAL_RATE, VideoInfo
from prvr.media.packages import require_av
from prvr.media.reader import open_video

Progress = Callable[[float], None]  # is called with the seconds that are written
FILM_SIDE = 1920  # pixels of the longer side of a film, at most
_FASTEST = 60.0  # pictures per second of a film, at most


def write_film(moments: Sequence[ExportMoment], out: Path, progress: Progress) -> Failures:
    """Join moments to one .mp4 file, in their order.

    Size and rate are those of the videos that most of the film comes from. Pictures of another shape are fitted into
    it, with black bars. Where a video has no sound, the film is silent.

    Returns:
        The moments that could not be read, with reasons.
    """
    infos: dict[str, VideoInfo] = {}
    good, failed, done = [], Failures(), 0.0
    for moment in moments:
        try:
            if str(moment.video) not in infos:
                infos[str(moment.video)] = open_video(moment.video).info
            good.append(moment)
        except MediaError as problem:
            failed.append((moment, problem.reason))
    if not good:
        return failed
    size, rate = _shape(good, infos)
    av = require_av()
    try:
        with ClipWriter(out, size, rate, sound=any(map(has_sound, infos.values()))) as film:
            for moment in good:
                try:
                    _append(film, moment, rate, lambda seconds: progress(done + seconds))  # noqa: B023 (called now)
                except MediaError as problem:
                    failed.append((moment, problem.reason))
                done += moment.seconds
    except (av.error.FFmpegError, ValueError) as problem:  # PyAV raises both
        raise ExportError(f"the film could not be written: {error_text(problem)}") from problem
    return failed


def _shape(moments: Sequence[ExportMoment], infos: dict[str, VideoInfo]) -> tuple[tuple[int, int], float]:
    """The size and the rate of most seconds."""
    shares = [(infos[str(moment.video)], moment.seconds) for moment in moments]
    size = most_seconds((clip_size(info, FILM_SIDE), seconds) for info, seconds in shares)
    return size, most_seconds((min(_FASTEST, info.fps or USUAL_RATE), seconds) for info, seconds in shares)


def _append(film: ClipWriter, moment: ExportMoment, rate: float, progress: Progress) -> None:
    """Append a moment with pictures at a steady rate. Raises MediaError if there are none."""
    begin, count = film.end, 0
    for part in read_stretch(moment.video, moment.start, moment.end):
        if isinstance(part, ShownPicture):
            while count / rate < part.end - 1e-6:  # the picture on screen at this time
                film.picture(replace(part, start=begin + count / rate, end=begin + (count + 1) / rate))
                count += 1
            progress(part.end)
        else:
            film.sound(replace(part, start=begin + part.start))
    if not count:
        raise nothing_there(moment.video, moment.start, moment.end)
    film.silence_until(film.end)


def write_clips(moments: Sequence[ExportMoment], out: Path, progress: Progress) -> Failures:
    """Pack moments as .mp4 files into one .zip file, with a table of them (moments.csv).

    Returns:
        The moments that could not be cut, with reasons.
    """
    failed, packed, done = Failures(), [], 0.0
    beside = TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)  # where there is room for the archive too
    with beside as folder, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for number, moment in enumerate(moments, 1):
            clip = Path(folder) / "clip.mp4"
            try:
                cut_clip(
                    moment.video, moment.start, moment.end, clip,
                    progress=lambda seconds: progress(done + seconds),  # noqa: B023 (called now)
                )  # fmt: skip
                archive.write(clip, moment.clip_name(number))
                packed.append(moment)
            except MediaError as problem:
                failed.append((moment, problem.reason))
            done += moment.seconds
        archive.writestr("moments.csv", moments_csv(packed))
    return failed
