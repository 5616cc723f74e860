"""One way to read a video, whatever decodes it.

    with open_video("holiday.mp4") as video:
        print(video.info.duration, video.info.width, video.info.height)
        for time, image in video.frames(rate=1.0):      # what is on screen at 0 s, 1 s, 2 s, …; (H, W, 3) uint8
            ...
        if video.problem:                                # the file broke off: what was decodable has been seen
            print(video.problem)

A file that cannot be read at all raises ``MediaError`` when it is opened.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from prvr.media.errors import MediaError
from prvr.media.frames import Fit, Frame, VideoInfo

if TYPE_CHECKING:
    from prvr.media.pyav_reader import PyAVReader
    from prvr.media.torchcodec_reader import TorchcodecReader

Backend = Literal["auto", "pyav", "torchcodec"]


class VideoReader(ABC):
    """An open video. Iterating ``frames`` again starts again; memory does not grow with the length of the file."""

    info: VideoInfo
    problem: str | None = None  # after (or during) iteration: why decoding ended early or pictures were lost
    decoder: str  # name and version, for recipes

    @abstractmethod
    def frames(self, rate: float = 1.0, fit: Fit | None = None) -> Iterator[Frame]:
        """What is on screen at the first frame and every 1/rate seconds after it; ``fit``: at which size."""

    def close(self) -> None:
        """Let go of what is held open between iterations; most readers hold nothing."""
        return

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_video(path: str | Path, backend: Backend = "auto", threads: int = 0) -> VideoReader:
    """Open a video file, or say in a ``MediaError`` why it is none. ``threads``: for decoding; 0 takes all cores."""
    return _reader_class(backend)(require_file(path), threads)


def decoder_name(backend: Backend = "auto") -> str:
    """Name and version of what decodes videos here, as recipes state it: ``pyav 18.1.0``.

    Raises:
        MissingExtra: the decoder is not installed.
    """
    return _reader_class(backend).decoder


def _reader_class(backend: Backend) -> type[PyAVReader] | type[TorchcodecReader]:
    if backend == "torchcodec":
        from prvr.media.torchcodec_reader import TorchcodecReader

        return TorchcodecReader
    from prvr.media.pyav_reader import PyAVReader

    return PyAVReader


def require_file(path: str | Path) -> Path:
    """The path of a readable, non-empty file."""
    path = Path(path)
    try:
        if path.is_dir():
            raise MediaError(path, "is a folder; give the video files in it, one by one")
        if not path.exists():
            raise MediaError(path, "is not there (moved, renamed or deleted?)")
        if not path.is_file():
            raise MediaError(path, "is no regular file (a pipe or a device)")
        if path.stat().st_size == 0:
            raise MediaError(path, "is empty (0 bytes): a copy or a download that never began?")
    except PermissionError as problem:
        raise MediaError(path, "may not be read by this user (permission denied)") from problem
    except (OSError, ValueError) as problem:
        raise MediaError(path, f"cannot be read: {problem}") from problem
    if not os.access(path, os.R_OK):
        raise MediaError(path, "may not be read by this user (permission denied)")
    return path
