"""Samples of a video in batches, at the size that an encoder asks for: what decoders hand to encoders."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.media.encoders.base import Encoder
from prvr.media.frames import Fit, Frame, VideoInfo
from prvr.media.reader import Backend, VideoReader
from prvr.media.repeats import RepeatFilter

_AHEAD = 4  # batches that are decoded before the encoder asks for them
_LARGEST = 32  # pictures of a batch
MOST_REPEATS = 8  # samples of a batch for each picture that fits in, so that a still video shows its progress
_BATCH_BYTES = 3 << 20  # of pictures in a batch; one picture may be larger


class FrameBatch(NamedTuple):
    """Consecutive samples of a video."""

    times: NDArray[np.float64]  # (n,) seconds
    images: NDArray[np.uint8]  # (k, H, W, 3), of the samples that are kept
    kept: NDArray[np.bool_]  # (n,) whether a sample has a picture of its own; if not, it has the last one's


@dataclass(frozen=True)
class Sampling:
    """How videos are sampled for an encoder."""

    rate: float  # samples per second
    fit: Fit  # size of the pictures
    batch: int = _LARGEST  # pictures that are handed over together, at most
    repeats: float = 0.0  # up to which difference a sample has no picture of its own: ``RepeatFilter``
    sees_motion: bool = True  # whether the encoder does
    decoder: Backend = "pyav"  # what decodes them

    @staticmethod
    def of(encoder: Encoder, rate: float, repeats: float = 0.0, decoder: Backend = "pyav") -> Sampling:
        fit = encoder.fit
        batch = max(1, min(_LARGEST, encoder.batch, _BATCH_BYTES // (3 * fit.width * fit.height)))
        return Sampling(rate, fit, batch, repeats, encoder.sees_motion, decoder)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a batch of pictures."""
        return self.batch, self.fit.height, self.fit.width, 3

    @property
    def needs_torch(self) -> bool:
        """Whether torch scales the pictures."""
        return self.fit.filter != "quick"


class DecodedFile(ABC):
    """A video that is decoded while its batches are read."""

    info: VideoInfo | None = None  # known before the first batch
    problem: str | None = None  # what could not be decoded; known after the last batch

    @abstractmethod
    def batches(self) -> Generator[FrameBatch, None, None]:
        """The samples in order of time. The pictures of a batch may be overwritten when the next is asked for.

        Raises:
            MediaError: the file cannot be read.
        """


def read_batches(
    frames: Iterable[Frame], how: Sampling, place: Callable[[], NDArray[np.uint8]] | None = None
) -> Iterator[FrameBatch]:
    """Collect frames in batches.

    Args:
        frames: of one video, in order of time.
        how: the size of pictures and batches.
        place: returns the array (batch, H, W, 3) to write the next batch to; by default a new one.
    """
    repeats = RepeatFilter(how.repeats, how.sees_motion)
    images, count, times, kept = None, 0, list[float](), list[bool]()
    for time, image in frames:
        if images is None:
            images = place() if place is not None else np.empty(how.shape, np.uint8)
        times.append(time)
        kept.append(repeats.keeps(image))
        if kept[-1]:
            images[count] = image
            count += 1
        if count == how.batch or len(times) == MOST_REPEATS * how.batch:
            yield FrameBatch(np.array(times), images[:count], np.array(kept))
            images, count, times, kept = None, 0, [], []
    if images is not None:
        yield FrameBatch(np.array(times), images[:count], np.array(kept))


class OpenFile(DecodedFile):
    """An open video, decoded by a thread of this process. Decoders release the interpreter lock meanwhile."""

    def __init__(self, video: VideoReader, how: Sampling):
        self.video, self.how, self.info = video, how, video.info

    def batches(self, start: int = 0) -> Generator[FrameBatch, None, None]:
        """The samples in order of time, from the number ``start`` on."""
        frames = islice(self.video.frames(self.how.rate, self.how.fit), start, None)
        with closing(_in_thread(read_batches(frames, self.how))) as batches:
            yield from batches
        self.problem = self.video.problem


def _in_thread(batches: Iterator[FrameBatch]) -> Generator[FrameBatch, None, None]:
    """The same batches, made in a separate thread while others are used."""
    ready: queue.Queue[FrameBatch | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item: FrameBatch | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def decode() -> None:
        try:
            if all(map(put, batches)):
                put(None)
        except BaseException as problem:  # raised again in the thread that encodes
            put(problem)

    thread = threading.Thread(target=decode, name="prvr-decode", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
