"""Decode a long video in stretches, which several processes can do at once, with exactly the samples of one pass.

    first, cuts = find_cuts(video, rate=1.0)                 # 0.0, [64, 128, 193, …]: numbers of samples
    for start, end in stretches(cuts):
        for time, image in stretch_frames(video, how, first, start, end):
            ...

A stretch begins at a sample shortly after a key frame, so that little is decoded twice. Where anything is out of the
ordinary (damage, times that jump or are missing, a seek that does not arrive), ``Irregular`` is raised: such a file is
decoded in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from prvr.media.containers import open_container, start_seconds, video_stream
from prvr.media.frame_batches import Sampling
from prvr.media.frames import Frame
from prvr.media.packages import require_av
from prvr.media.pyav_reader import (
    DEFAULT_GAP,
    SEEK_PAYS,
    PictureConverter,
    PyAVReader,
    decoded_pictures,
    decoding_problem,
    key_frame_gap,
    picture_duration,
    stream_seconds,
)
from prvr.media.sampling import TOLERANCE, Sampler, longest_still

av = require_av()

STRETCH_SAMPLES = 64  # about so many; a stretch ends where a key frame is
_MOST_KEYS = 1 << 20  # entries of a file's index that are read
_REORDERED = 16  # frames that a key frame may be shown later than its place in the file
_LONGEST_GAP = 60.0  # seconds between two pictures


class Irregular(Exception):
    """The file must be decoded in one pass."""


def find_cuts(video: PyAVReader, rate: float) -> tuple[float, list[int]]:
    """The time of the first sample, and the numbers of samples at which stretches can begin; none if it is short."""
    gap = 1 / video.info.fps if video.info.fps else DEFAULT_GAP
    if video.info.duration is None or video.info.duration * rate < 2 * STRETCH_SAMPLES:
        return 0.0, []
    if video.info.duration > longest_still(1 << 30):  # what a file claims is believed only as it is decoded
        return 0.0, []
    if not isinstance(video.path, Path):  # several processes would fetch parts of a bucket's file twice
        return 0.0, []
    with open_container(video.path) as container:
        stream, origin = video_stream(container, video.path), start_seconds(container)
        picture = next(decoded_pictures(container, stream, []), None)
        if origin is None or picture is None or picture.time is None or not -1.0 < picture.time - origin < 1.0:
            return 0.0, []
        first = max(0.0, picture.time - origin)
        try:
            container.seek(0, stream=stream)  # Matroska's index is read with the first seek
        except (av.error.FFmpegError, OSError):
            return 0.0, []
        between_keys = key_frame_gap(stream)
        if between_keys is None or 1 / rate > SEEK_PAYS * between_keys:
            return 0.0, []  # without an index; or one pass seeks anyway
        cuts = [0]
        for key in _key_times(stream, origin):
            number = math.ceil((key + _REORDERED * gap - first) * rate)
            if number >= cuts[-1] + STRETCH_SAMPLES:
                cuts.append(number)
        return first, cuts[1:]


def stretch_frames(video: PyAVReader, how: Sampling, first: float, start: int, end: int | None) -> Iterator[Frame]:
    """The samples from number ``start`` to ``end`` (excluded; None: the end of the file).

    Raises:
        Irregular: these might not be the samples of one pass.
    """
    convert = PictureConverter(video.info, how.fit)
    sampler = Sampler[Any](how.rate)
    sampler.first, sampler.taken = first, start
    gap = 1 / video.info.fps if video.info.fps else DEFAULT_GAP
    hold = gap
    with open_container(video.path) as container:
        stream = video_stream(container, video.path)
        stream.codec_context.thread_count, stream.thread_type = video.threads, "AUTO"
        for time, picture in _ordered(video, container, stream, sampler.due if start else None):
            for due, shown in sampler.push(time, picture):
                yield Frame(due, convert(shown))
                if sampler.taken == end:
                    return
            if sampler.cut:
                raise Irregular("a picture stands still for longer than is believed")
            hold = stream_seconds(picture.duration, stream) or gap
        if end is not None or sampler.held is None:
            raise Irregular("the file ends before its index does")
        for due, shown in sampler.finish(hold):
            yield Frame(due, convert(shown))
        if sampler.cut:
            raise Irregular("the last picture stands still for longer than is believed")
        video.problem = decoding_problem([], sampler.held[0] + hold, picture_duration(container, stream))


def _ordered(video: PyAVReader, container: Any, stream: Any, due: float | None) -> Iterator[tuple[float, Any]]:
    """Pictures with their times, from the last key frame before ``due``."""
    origin, duration = start_seconds(container), video.info.duration
    if origin is None or duration is None:
        raise Irregular("the file does not say when it starts")
    if due is not None:
        container.seek(int((due + origin) / stream.time_base), stream=stream)
    lost: list[str] = []
    last, begun = -math.inf, due is None
    for picture in decoded_pictures(container, stream, lost):
        if lost or picture.time is None:
            raise Irregular("a place is damaged, or a picture has no time")
        time = max(0.0, picture.time - origin)
        if due is not None and not begun:
            if time > due + TOLERANCE:
                raise Irregular("the seek went too far")
            begun = picture.key_frame
            if not begun:  # shown before the key frame, and needs what was before it
                continue
        if time < last or time > duration + 1.0 or (time - last > _LONGEST_GAP and last > -math.inf):
            raise Irregular("the times of the pictures jump")
        last = time
        yield time, picture
    if lost:
        raise Irregular("a place is damaged")


def _key_times(stream: Any, origin: float) -> Iterator[float]:
    entries: Sequence[Any] = stream.index_entries
    for number in range(min(len(entries), _MOST_KEYS)):
        if entries[number].is_keyframe:
            yield float(entries[number].timestamp * stream.time_base) - origin
