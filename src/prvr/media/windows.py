"""A video to one vector for each window of frames: windows follow each other without gaps, in bounded memory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from prvr.media.buckets import VideoFile
from prvr.media.encoders.base import WindowEncoder
from prvr.media.errors import MediaError
from prvr.media.features import VideoFeatures
from prvr.media.frame_batches import OpenFile, Sampling
from prvr.media.reader import Backend, open_video


def window_features(
    path: str | VideoFile, encoder: WindowEncoder, rate: float, backend: Backend = "pyav"
) -> VideoFeatures:
    """Vectors of a whole video, one for each window. A row's time is its window's start.

    Args:
        path: the video.
        encoder: turns windows into vectors.
        rate: frames per second; ``encoder.frames`` of them are a window, so that it lasts ``encoder.frames / rate``.
            The last window repeats its last frame where the video ends earlier.
        backend: what decodes the video.

    Raises:
        MediaError: the file is not a video, or none of it can be decoded.
    """
    times, vectors = list[float](), list[NDArray[np.float32]]()
    how = Sampling(rate, encoder.fit, batch=encoder.frames, decoder=backend)
    with open_video(path, backend) as video, closing(_windows(OpenFile(video, how), encoder.frames)) as windows:
        while some := [*islice(windows, encoder.batch)]:
            times += [time for time, _ in some]
            vectors.append(encoder.encode_windows(np.stack([frames for _, frames in some])))
        if not vectors:
            raise MediaError(path, video.problem or "no frame could be decoded")
        recipe = encoder.recipe(rate, video.decoder)
        return VideoFeatures(np.array(times), np.concatenate(vectors), video.info, recipe, video.problem)


def _windows(file: OpenFile, count: int) -> Generator[tuple[float, NDArray[np.uint8]], None, None]:
    """The start and the frames (count, H, W, 3) of each window; a batch of the file is one window."""
    with closing(file.batches()) as batches:
        for batch in batches:
            missing = count - len(batch.images)
            yield batch.times[0], np.concatenate([batch.images, batch.images[-1:].repeat(missing, 0)])
