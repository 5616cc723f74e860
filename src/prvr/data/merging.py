"""Order-preserving merging: neighbouring slots of a video that look alike become one clip (MSC-PRVR).

Clips are then of uneven length, and each has a size: how many slots it stands for. Nothing is learned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prvr.data.errors import DataError

Array = NDArray[np.float32]

_SHARES = (1 / 2, 5 / 24, 0.0)  # of the slots to lose, what is left after each round: 128 → 80 → 52 → 32


def merge_rounds(slots: int, clips: int) -> list[int]:
    """How many tokens are left after each of three rounds.

    >>> merge_rounds(128, 32)
    [80, 52, 32]
    """
    left = [clips + round((slots - clips) * share) for share in _SHARES]
    for before, after in zip([slots, *left], left, strict=False):
        if not 0 <= before - after <= before // 2:
            raise DataError(
                f"{slots} slots (model.frames) cannot be merged into {clips} clips (model.clips) by pairs in three "
                f"rounds: choose {clips} to {5 * clips} frames, or other clips."
            )
    return left


def merge_slots(slots: Array, clips: int) -> tuple[Array, NDArray[np.int64]]:
    """Merge slots pair by pair, (M, D) → clips (C, D) and their sizes (C,), which sum to M.

    Tokens are paired as they stand, first with second, third with fourth. The pairs with the largest dot product merge
    (of equal ones the earlier), weighted by their sizes; order is kept, and the next round pairs the new sequence.

    >>> rows, sizes = merge_slots(np.float32([[2], [2], [0], [1], [3], [3], [1], [0]]), 4)
    >>> rows.ravel().tolist(), sizes.tolist()
    ([2.0, 0.0, 2.0, 0.0], [2, 1, 4, 1])
    """
    rows, sizes = slots.astype(np.float32, copy=False), np.ones(len(slots), dtype=np.int64)
    for left in merge_rounds(len(slots), clips):
        pairs = len(rows) // 2
        first, second = rows[: 2 * pairs : 2], rows[1 : 2 * pairs : 2]
        alike = np.einsum("nd,nd->n", first, second)
        chosen = 2 * np.argsort(-alike, kind="stable")[: len(rows) - left]  # places of the first of each pair
        weight = sizes[:, None].astype(np.float32)
        merged = (weight[chosen] * rows[chosen] + weight[chosen + 1] * rows[chosen + 1]) / (
            weight[chosen] + weight[chosen + 1]
        )
        rows, sizes = rows.copy(), sizes.copy()
        rows[chosen] = merged
        sizes[chosen] += sizes[chosen + 1]
        kept = np.ones(len(rows), dtype=bool)
        kept[chosen + 1] = False
        rows, sizes = rows[kept], sizes[kept]
    return rows, sizes
