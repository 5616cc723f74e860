"""Video files to feature vectors: files are decoded while others are encoded, in bounded memory.

whole = video_features("holiday.mp4", encoder, rate=1.0)        # all rows at once
with open_video("holiday.mp4") as video:
    for part in feature_parts(video, encoder, rate=1.0):        # some samples at a time
        print(part.times, part.vectors)                         # (n,), (n, D)
for video in encode_videos(decode_videos(paths, …), encoder):   # many files, decoded in several processes
    for part in video.parts():
        ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.media.buckets import VideoFile
from prvr.media.encoders.base import Array, Encoder
from prvr.media.errors import MediaError
from prvr.media.frame_batches import MOST_REPEATS, DecodedFile, FrameBatch, OpenFile, Sampling
from prvr.media.frames import Image, VideoInfo
from prvr.media.reader import Backend, VideoReader, open_video
from prvr.media.recipe import Recipe
from prvr.media.repeats import spread

_IN_FLIGHT = 2  # batches: a GPU is busy with the second while the vectors of the first are used


class FeaturePart(NamedTuple):
    """Features of consecutive samples of a video."""

    times: NDArray[np.float64]  # (n,) seconds
    vectors: Array  # (n, D) unit length
    repeats: int = 0  # samples that have the vector of an earlier one, because they look like it


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
    path: str | VideoFile, encoder: Encoder, rate: float = 1.0, backend: Backend = "pyav", repeats: float = 0.0
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
    """Features of an open video, some samples at a time, while the next ones are decoded.

    Args:
        video: the open video.
        encoder: turns pictures into vectors.
        rate: samples per second.
        repeats: a sample that differs less from the last encoded one gets its vector (``RepeatFilter``); 0: all are
            encoded.
    """
    with closing(encode_videos([OpenFile(video, Sampling.of(encoder, rate, repeats))], encoder)) as videos:
        for encoded in videos:
            yield from encoded.parts()


def encode_videos(files: Iterable[DecodedFile], encoder: Encoder) -> Generator[EncodedVideo, None, None]:
    """Encode files one after the other. Read the parts of each before the next is asked for.

    Several short files share a batch, unless the encoder sees motion. What is wrong with a file is raised by its
    ``parts``; what is wrong with ``files`` itself, after the parts of the files before.
    """
    work = _Work(files, encoder)
    try:
        while True:
            while not work.begun and work.step():
                pass
            if not work.begun:
                break
            video = work.begun.popleft()
            yield video
            video.close()
    finally:
        work.close()
    if work.problem is not None:
        raise work.problem


class EncodedVideo:
    """A file whose vectors come while its ``parts`` are read."""

    def __init__(self, file: DecodedFile, step: Callable[[], bool]):
        self.file, self._step = file, step
        self._ready = deque[FeaturePart]()
        self._waiting = 0  # batches without vectors
        self._last: Array | None = None  # the vector of the last sample
        self._ended = False  # every batch is decoded
        self._failure: Exception | None = None
        self.closed = False  # nobody reads its parts any more

    @property
    def info(self) -> VideoInfo:
        """Facts about the file. Raises what ``parts`` raises."""
        while self.file.info is None and self._failure is None and self._step():
            pass
        if self.file.info is None:
            raise self._failure or RuntimeError("the decoder gave no facts about the file")
        return self.file.info

    @property
    def problem(self) -> str | None:
        """What could not be decoded; complete after the last part."""
        return self.file.problem

    def parts(self) -> Iterator[FeaturePart]:
        """Features of the samples, in order of time.

        Raises:
            MediaError: the file cannot be read.
        """
        more = True
        while True:
            while self._ready:
                yield self._ready.popleft()
            if self._failure is not None:
                raise self._failure
            if not more or (self._ended and self._waiting == 0):
                return
            more = self._step()

    def close(self) -> None:
        self.closed = True
        self._ready.clear()

    # -- called by the work --------------------------------------------------------------------------------------------

    def expect(self) -> None:
        self._waiting += 1

    def deliver(self, batch: FrameBatch, vectors: Array) -> None:
        self._waiting -= 1
        if not self.closed:
            vectors = spread(vectors, batch.kept, self._last)
            self._last = vectors[-1]
            self._ready.append(FeaturePart(batch.times, vectors, int(np.sum(~batch.kept))))

    def fail(self, problem: Exception) -> None:
        self._failure = self._failure or problem

    def end(self) -> None:
        self._ended = True


@dataclass
class _Batch:
    """Pictures that are encoded together, and whose they are."""

    pictures: NDArray[np.uint8]  # (batch, H, W, 3), of which ``count`` are filled
    count: int = 0
    samples: int = 0  # with those that have no picture of their own
    before: Image | None = None  # the sample before the first
    shares: list[tuple[EncodedVideo, FrameBatch]] = field(default_factory=list)
    vectors: Callable[[], Array] = lambda: np.zeros((0, 0), np.float32)

    def take(self, video: EncodedVideo, batch: FrameBatch) -> None:
        self.pictures[self.count : self.count + len(batch.images)] = batch.images
        self.count += len(batch.images)
        self.samples += len(batch.times)
        self.shares.append((video, batch._replace(images=batch.images[:0])))
        video.expect()


class _Work:
    """Collects batches of files in order, keeps some in flight, and hands their vectors to the files."""

    def __init__(self, files: Iterable[DecodedFile], encoder: Encoder):
        self.encoder = encoder
        self.begun = deque[EncodedVideo]()
        self.problem: Exception | None = None  # of what the files come from
        self._flying = deque[_Batch]()
        self._spare = list[NDArray[np.uint8]]()
        self._filling: _Batch | None = None
        self._steps = self._all_steps(files)

    def step(self) -> bool:
        """Work a little. Returns False at the end."""
        return next(self._steps, False)

    def close(self) -> None:
        self._steps.close()

    def _all_steps(self, files: Iterable[DecodedFile]) -> Generator[bool, None, None]:
        waiting = iter(files)
        while (file := self._next(waiting)) is not None:
            video = EncodedVideo(file, self.step)
            self.begun.append(video)
            yield True
            yield from self._read(video)
            video.end()
        yield from self._start()
        while self._flying:
            self._land()
            yield True

    def _next(self, files: Iterator[DecodedFile]) -> DecodedFile | None:
        try:
            return next(files, None)
        except Exception as problem:  # raised again when the files before are done
            self.problem = problem
            return None

    def _read(self, video: EncodedVideo) -> Iterator[bool]:
        """Take the batches of a file. Its problems are its own."""
        last: Image | None = None
        with closing(video.file.batches()) as batches:
            while (batch := self._next_batch(video, batches)) is not None:
                if self._filling is not None and self._is_full(self._filling, batch):
                    yield from self._start()
                if self._filling is None:
                    self._filling = _Batch(self._place(), before=last)
                self._filling.take(video, batch)
                if self.encoder.sees_motion and len(batch.images):
                    last = batch.images[-1].copy()
                yield True
        if self.encoder.sees_motion:  # which must not see the next file; it has computed already
            yield from self._start()
            while self._flying:
                self._land()
                yield True

    @staticmethod
    def _next_batch(video: EncodedVideo, batches: Iterator[FrameBatch]) -> FrameBatch | None:
        try:
            return None if video.closed else next(batches, None)
        except Exception as problem:
            video.fail(problem)
            return None

    def _is_full(self, filling: _Batch, batch: FrameBatch) -> bool:
        most = self.encoder.batch
        return filling.count + len(batch.images) > most or filling.samples >= MOST_REPEATS * most

    def _place(self) -> NDArray[np.uint8]:
        fit = self.encoder.fit
        return self._spare.pop() if self._spare else np.empty((self.encoder.batch, fit.height, fit.width, 3), np.uint8)

    def _start(self) -> Iterator[bool]:
        batch, self._filling = self._filling, None
        if batch is None:
            return
        try:
            if batch.count:
                batch.vectors = self.encoder.start_frames(batch.pictures[: batch.count], batch.before)
        except Exception as problem:
            for video, _ in batch.shares:
                video.fail(problem)
            return
        self._flying.append(batch)
        if len(self._flying) == _IN_FLIGHT:
            self._land()
            yield True

    def _land(self) -> None:
        """Hand out the vectors of the oldest batch."""
        batch = self._flying.popleft()
        first = 0
        try:
            vectors = batch.vectors()
        except Exception as problem:
            for video, _ in batch.shares:
                video.fail(problem)
            return
        for video, share in batch.shares:
            count = int(share.kept.sum())
            video.deliver(share, vectors[first : first + count])
            first += count
        self._spare.append(batch.pictures)
