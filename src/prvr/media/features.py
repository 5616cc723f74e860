"""A video file to features: decoding in one thread, encoding in another, memory bounded.

for part in feature_parts("holiday.mp4", encoder, rate=1.0):     # as many rows at a time as the encoder likes
    part.times, part.vectors                                     # (n,), (n, D)
whole = video_features("holiday.mp4", encoder, rate=1.0)         # all at once
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.media.encoders.base import Array, Encoder
from prvr.media.errors import MediaError
from prvr.media.frames import Frame, VideoInfo
from prvr.media.reader import Backend, VideoReader, open_video
from prvr.media.recipe import Recipe

_AHEAD = 2  # batches decoded while one is encoded


class FeaturePart(NamedTuple):
    """Consecutive samples."""

    times: NDArray[np.float64]  # (n,) seconds
    vectors: Array  # (n, D) unit length


@dataclass(frozen=True)
class VideoFeatures:
    """All samples of a video, how they were made, and what was wrong with the file, if anything."""

    times: NDArray[np.float64]  # (n,) seconds
    vectors: Array  # (n, D) unit length
    info: VideoInfo
    recipe: Recipe
    problem: str | None = None

    def __len__(self) -> int:
        return len(self.times)


def video_features(path: str | Path, encoder: Encoder, rate: float = 1.0, backend: Backend = "auto") -> VideoFeatures:
    """Features of a whole video; a ``MediaError`` where nothing of it can be decoded."""
    with open_video(path, backend) as video:
        parts = list(feature_parts(video, encoder, rate))
        if not parts:
            raise MediaError(path, video.problem or "no picture could be decoded from it")
        return VideoFeatures(
            times=np.concatenate([part.times for part in parts]),
            vectors=np.concatenate([part.vectors for part in parts]),
            info=video.info,
            recipe=encoder.recipe(rate, video.decoder),
            problem=video.problem,
        )


def feature_parts(video: VideoReader, encoder: Encoder, rate: float = 1.0) -> Iterator[FeaturePart]:
    """Features of an open video, a batch at a time, while the next batches are being decoded."""
    before = None
    for frames in _ahead(video, encoder, rate):
        images = [frame.image for frame in frames]
        yield FeaturePart(np.array([frame.time for frame in frames]), encoder.encode_frames(images, before))
        before = images[-1]


def _ahead(video: VideoReader, encoder: Encoder, rate: float) -> Generator[list[Frame], None, None]:
    """Batches of frames, decoded in a thread of their own (which lets go of the interpreter while it decodes)."""
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
        except BaseException as problem:  # travels to whoever consumes
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
