"""Which samples of a video show nearly the same picture as the last one that was encoded.

    repeats = RepeatFilter(USUAL_REPEATS, encoder.sees_motion)              # one for each video
    kept = [repeats.keeps(frame.image) for frame in video.frames(1.0, encoder.fit)]
    vectors = spread(encoder.encode_frames(images_that_were_kept), kept)   # one for each sample

A picture is divided into 16 × 16 cells. Two pictures are nearly the same if no cell's mean colour differs by more than
the threshold. The mean of a cell hides the noise of sensors and codecs; the largest difference of all cells shows an
object that covers 2 % of the picture as clearly as one that fills it. Pictures are compared with the last one that was
encoded, not with their neighbour, so that slow changes add up until they are seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prvr.media.encoders.base import Array
from prvr.media.frames import Image

USUAL_REPEATS = 2.0  # levels of 255; chosen by `benchmarks/look_less.py --choose`
CELLS = 16  # along each side


class RepeatFilter:
    """Tells which samples of one video need to be encoded.

    >>> wall, other = np.full((48, 64, 3), 90, np.uint8), np.full((48, 64, 3), 90, np.uint8)
    >>> other[:8, :10] = 120  # something small in a corner
    >>> repeats = RepeatFilter(threshold=4.0, sees_motion=False)
    >>> [repeats.keeps(image) for image in (wall, wall, other, other, wall)]
    [True, False, True, False, True]
    """

    def __init__(self, threshold: float, sees_motion: bool):
        """
        Args:
            threshold: largest difference of a cell's mean colour, in levels of 255, that is no change. 0: every sample
                is encoded.
            sees_motion: whether the encoder also looks at the sample before, as ``Encoder.encode_frames`` may. A
                picture is then repeated only after it was encoded once while nothing moved.
        """
        self.threshold, self.sees_motion = threshold, sees_motion
        self._last: NDArray[np.float32] | None = None  # cells of the last sample that was kept
        self._image: Image | None = None  # the last sample
        self._settled = False  # whether the last kept sample may stand for others

    def keeps(self, image: Image) -> bool:
        """Whether the next sample, (H, W, 3), must be encoded. If not, the last one that was kept stands for it."""
        if self.threshold <= 0:
            return True
        if image is self._image and self._settled:  # readers return one picture several times while it is on screen
            return False
        cells = cell_means(image)
        same = self._last is not None and float(np.abs(cells - self._last).max()) <= self.threshold
        self._image = image
        if same and self._settled:
            return False
        self._last, self._settled = cells, same or not self.sees_motion
        return True


def cell_means(image: Image) -> NDArray[np.float32]:
    """Mean colours of the cells of a picture: (H, W, 3) → (16, 16, 3); a small picture may have fewer cells."""
    down, across = (-(-side // CELLS) for side in image.shape[:2])  # pixels of a cell
    missing = (-image.shape[0] % down, -image.shape[1] % across)
    if any(missing):
        image = np.pad(image, ((0, missing[0]), (0, missing[1]), (0, 0)), "edge")
    height, width = image.shape[:2]
    rows = image.reshape(height // down, down, width * 3).sum(1, dtype=np.uint32)
    sums = rows.reshape(height // down, width // across, across, 3).sum(2)
    return (sums / (down * across)).astype(np.float32)


def spread(vectors: Array, kept: Sequence[bool] | NDArray[np.bool_], before: Array | None = None) -> Array:
    """A vector for every sample: those that were not kept get the one of the last sample that was.

    Args:
        vectors: of the samples that were kept, (n, D).
        kept: for each sample, whether it was kept.
        before: the vector of the sample before the first, (D,), if the first was not kept.

    >>> spread(np.array([[1.0], [2.0]], np.float32), [False, True, False, True], np.array([9.0], np.float32)).tolist()
    [[9.0], [1.0], [1.0], [2.0]]
    """
    if np.all(kept):
        return vectors
    if kept[0]:
        return vectors[np.cumsum(kept) - 1]
    assert before is not None
    return np.concatenate([before[None], vectors.reshape(-1, len(before))])[np.cumsum(kept)]
