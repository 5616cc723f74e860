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
from prvr.media.frames import Frame, VideoInfo
from prvr.media.reader import Backend, VideoReader, open_video
from prvr.media.recipe import Recipe

_AHEAD = 2  # batches decoded while one is encoded


class FeaturePart(NamedTuple):
    """Features of consecutive samples of a video."""

    times: NDArray[np.float64]  # (n,) seconds
    vectors: Array  # (n, D) unit length


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
    path: str | VideoFile, encoder: Encoder, rate: float = 1.0, backend: Backend = "auto"
) -> VideoFeatures:
    """Features of a whole video, sampled at ``rate`` frames per second.

    Raises:
        MediaError: the file is not a video, or none of it can be decoded.
    """
    with open_video(path, backend) as video:
        parts = list(feature_parts(video, encoder, rate))
        if not parts:
            raise MediaError(path, video.problem or "no frame could be decoded")
        return VideoFeatures(
            times=np.concatenate([part.times for part in parts]),
            vectors=np.concatenate([part.vectors for part in parts]),
            info=video.info,
            recipe=encoder.recipe(rate, video.decoder),
            problem=video.problem,
        )


def feature_parts(video: VideoReader, encoder: Encoder, rate: float = 1.0) -> Iterator[FeaturePart]:
    """Features of an open video, one encoder batch at a time, while the next batches are decoded."""
    before, started = None, list[tuple[NDArray[np.float64], Callable[[], Array]]]()  # at most two
    for frames in _batches(video, encoder, rate):
        images = [frame.image for frame in frames]
        started.append((np.array([frame.time for frame in frames]), encoder.start_frames(images, before)))
        before = images[-1]
        if len(started) == 2:  # a GPU is busy with the second while the first is used
            times, vectors = started.pop(0)
            yield FeaturePart(times, vectors())
    for times, vectors in started:
        yield FeaturePart(times, vectors())


def _batches(video: VideoReader, encoder: Encoder, rate: float) -> Generator[list[Frame], None, None]:
    """Batches of frames, decoded in a separate thread; decoders release the interpreter lock meanwhile."""
    ready: queue.Queue[list[Frame] | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def put(item: list[Frame] | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def decode() -> None:
        batch: list[Frame] = []
        try:
            for frame in video.frames(rate, encoder.fit):
                batch.append(frame)
                if len(batch) == encoder.batch:
                    if not put(batch):
                        return
                    batch = []
            if batch:
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
