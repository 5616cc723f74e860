"""A video file to feature vectors: one thread decodes while another encodes, in bounded memory.

whole = video_features("holiday.mp4", encoder, rate=1.0)        # all rows at once
with open_video("holiday.mp4") as video:
    for part in feature_parts(video, encoder, rate=1.0):        # one encoder batch at a time
        print(part.times, part.vectors)                         # (n,), (n, D)
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.media.buckets import VideoFile
from prvr.media.encoders.base import Array, Encoder
from prvr.media.errors import MediaError
from prvr.media.frames import Image, VideoInfo
from prvr.media.reader import Backend, VideoReader, open_video
from prvr.media.recipe import Recipe
from prvr.media.repeats import RepeatFilter, spread

_AHEAD = 2  # batches decoded while one is encoded
_MOST_SAMPLES = 8  # times the pictures of a batch, so that a still video shows its progress


class FeaturePart(NamedTuple):
    """Features of consecutive samples of a video."""

    times: NDArray[np.float64]  # (n,) seconds
    vectors: Array  # (n, D) unit length
    repeats: int = 0  # samples that have the vector of an earlier one, because they look like it


class FrameBatch(NamedTuple):
    """Consecutive samples of a video, with the pictures of those that must be encoded."""

    times: list[float]
    images: list[Image]
    kept: list[bool]  # for each time, whether ``images`` holds its picture; if not, the last one stands for it


@dataclass(frozen=True)
class VideoFeatures:
    """Features of a whole video, with the facts about the file and how the features were made."""

    times: NDArray[np.float64]  # (n,) seconds
    vectors: Array  # (n, D) unit length
    info: VideoInfo
    recipe: Recipe
    problem: str | None = None  # what could not be decoded; None where everything was

    def __len__(self) -> int:
        return len(self.times)


def video_features(
    path: str | VideoFile, encoder: Encoder, rate: float = 1.0, backend: Backend = "auto", repeats: float = 0.0
) -> VideoFeatures:
    """Features of a whole video, sampled at ``rate`` frames per second. ``repeats`` as in ``feature_parts``.

    Raises:
        MediaError: the file is not a video, or none of it can be decoded.
    """
    with open_video(path, backend) as video:
        parts = list(feature_parts(video, encoder, rate, repeats))
        if not parts:
            raise MediaError(path, video.problem or "no frame could be decoded")
        return VideoFeatures(
            times=np.concatenate([part.times for part in parts]),
            vectors=np.concatenate([part.vectors for part in parts]),
            info=video.info,
            recipe=encoder.recipe(rate, video.decoder, repeats),
            problem=video.problem,
        )


def feature_parts(
    video: VideoReader, encoder: Encoder, rate: float = 1.0, repeats: float = 0.0
) -> Iterator[FeaturePart]:
    """Features of an open video, one encoder batch at a time, while the next batches are decoded.

    Args:
        video: the open video.
        encoder: turns pictures into vectors.
        rate: samples per second.
        repeats: a sample that differs less from the last encoded one gets its vector (``RepeatFilter``); 0: all are
            encoded.
    """
    before, last = None, None  # the last picture that was encoded, and its vector
    started = list[tuple[FrameBatch, Callable[[], Array]]]()  # at most two

    def finish() -> FeaturePart:
        nonlocal last
        batch, encoded = started.pop(0)
        vectors = spread(encoded(), batch.kept, last)
        last = vectors[-1]
        return FeaturePart(np.array(batch.times), vectors, batch.kept.count(False))

    for batch in _batches(video, encoder, rate, repeats):
        if batch.images:
            started.append((batch, encoder.start_frames(batch.images, before)))
            before = batch.images[-1]
        else:
            started.append((batch, lambda: np.zeros((0, encoder.width), np.float32)))
        if len(started) == 2:  # a GPU is busy with the second while the first is used
            yield finish()
    while started:
        yield finish()


def _batches(video: VideoReader, encoder: Encoder, rate: float, repeats: float) -> Generator[FrameBatch, None, None]:
    """Batches of frames, decoded in a separate thread; decoders release the interpreter lock meanwhile."""
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
        batch, seen = FrameBatch([], [], []), RepeatFilter(repeats, encoder.sees_motion)
        try:
            for time, image in video.frames(rate, encoder.fit):
                batch.times.append(time)
                batch.kept.append(seen.keeps(image))
                if batch.kept[-1]:
                    batch.images.append(image)
                if len(batch.images) == encoder.batch or len(batch.times) == _MOST_SAMPLES * encoder.batch:
                    if not put(batch):
                        return
                    batch = FrameBatch([], [], [])
            if batch.times:
                put(batch)
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
