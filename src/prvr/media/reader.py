"""Open a video and read its frames; one interface for every decoder.

    with open_video("holiday.mp4") as video:
        print(video.info.duration, video.info.width, video.info.height)
        for time, image in video.frames(rate=1.0):      # what is on screen at 0 s, 1 s, 2 s, …; (H, W, 3) uint8
            ...
        if video.problem:                                # part of the file could not be decoded
            print(video.problem)

A file that cannot be read at all raises ``MediaError`` when it is opened.
"""

from __future__ import annotations

import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from prvr.media.buckets import VideoFile, video_path
from prvr.media.errors import MediaError
from prvr.media.frames import Fit, Frame, VideoInfo

if TYPE_CHECKING:
    from prvr.media.pyav_reader import PyAVReader
    from prvr.media.torchcodec_reader import TorchcodecReader

_DECODING, _BYTES_A_SECOND = 3600.0, 20_000.0  # see longest_decoding; a film of one hour has some 10^9 bytes
Backend = Literal["pyav", "torchcodec", "nvdec"]


def longest_decoding(size: int) -> float:
    """Seconds that decoding a file of this size (bytes) may take: an hour, and longer the larger it is.

    >>> [round(longest_decoding(size) / 3600) for size in (859, 10**9)]  # in hours
    [1, 15]
    """
    return _DECODING + size / _BYTES_A_SECOND


class VideoReader(ABC):
    """An open video. Every call of ``frames`` starts at the beginning. Memory does not grow with the file's length."""

    info: VideoInfo
    problem: str | None = None  # set while ``frames`` is read: why decoding ended early or frames were lost
    decoder: str  # name and version, for recipes
    threads: int = 0  # for decoding; 0 uses all cores

    def frames(self, rate: float = 1.0, fit: Fit | None = None) -> Iterator[Frame]:
        """The picture on screen at the first frame and every 1/rate seconds after it, scaled as ``fit`` says.

        A file that takes longer to decode than ``longest_decoding`` ends there, and ``problem`` says so.
        """
        spent, most, frames = 0.0, longest_decoding(self.info.path.stat().st_size), self._frames(rate, fit)
        while True:
            began = time.monotonic()
            frame = next(frames, None)
            spent += time.monotonic() - began  # without the time that the reader of the frames needs
            if frame is None:
                return
            yield frame
            if spent > most:
                self.problem = f"took more than {most / 60:.0f} minutes to decode: left out from {frame.time:.0f} s on"
                return

    @abstractmethod
    def _frames(self, rate: float, fit: Fit | None) -> Iterator[Frame]:
        """The same without a limit of time."""

    def close(self) -> None:
        """Release what is open between iterations; most readers keep nothing open."""
        return

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_video(path: str | VideoFile, backend: Backend = "pyav", threads: int = 0) -> VideoReader:
    """Open a video file.

    Args:
        path: the file, or its address in a bucket.
        backend: what decodes it; ``nvdec`` is torchcodec on an NVIDIA GPU.
        threads: for decoding; 0 uses all cores.

    Raises:
        MediaError: the file cannot be read or is not a video.
        MissingExtra: the decoder is not installed.
        StorageError: the bucket cannot be reached.
    """
    return _reader_class(backend)(require_file(path), threads)


def decoder_name(backend: Backend = "pyav") -> str:
    """Name and version of what decodes videos here, as recipes state it: ``pyav 18.1.0``.

    Raises:
        MissingExtra: the decoder is not installed.
    """
    return _reader_class(backend).decoder


def _reader_class(backend: Backend) -> type[PyAVReader] | type[TorchcodecReader]:
    if backend != "pyav":
        from prvr.media.torchcodec_reader import TorchcodecReader, nvdec_reader

        return nvdec_reader() if backend == "nvdec" else TorchcodecReader
    from prvr.media.pyav_reader import PyAVReader

    return PyAVReader


def require_file(path: str | VideoFile) -> VideoFile:
    """The path, if it is a readable file with content; else a ``MediaError`` says what it is."""
    path = video_path(path)
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise MediaError(path, "does not exist (was it moved, renamed or deleted?)") from problem
    except PermissionError as problem:
        raise MediaError(path, "cannot be read by this user (permission denied)") from problem
    except (OSError, ValueError) as problem:
        raise MediaError(path, f"cannot be read: {problem}") from problem
    if stat.S_ISDIR(status.st_mode):
        raise MediaError(path, "is a folder; give the video files in it one by one")
    if not stat.S_ISREG(status.st_mode):
        raise MediaError(path, "is not a regular file (it is a pipe or a device)")
    if status.st_size == 0:
        raise MediaError(path, "is empty (0 bytes): did a copy or a download fail?")
    if isinstance(path, Path) and not os.access(path, os.R_OK):
        raise MediaError(path, "cannot be read by this user (permission denied)")
    return path
