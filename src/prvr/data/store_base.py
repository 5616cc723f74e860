"""What all stores of features have in common."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from prvr.data.errors import DataError

Array = NDArray[np.float32]


class FeatureStore(Protocol):
    """Read-only features by id; close it, or use it as a context."""

    @property
    def ids(self) -> tuple[str, ...]: ...

    @property
    def width(self) -> int: ...

    def __contains__(self, name: object) -> bool: ...

    def length(self, name: str) -> int:
        """Rows of one id, without reading them."""
        ...

    def read(self, name: str) -> Array:
        """Features of one id, (n, width)."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> FeatureStore: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Closing:
    """The context-manager half of a store."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def require_finite(features: Array, path: Path, name: str) -> Array:
    """Return ``features`` (n, D) unchanged; refuse an empty array, NaN and infinity."""
    if len(features) == 0:
        raise DataError(f"{path}: '{name}' has no rows; remove it from the captions, or extract its features again.")
    # One sum finds any NaN or infinity. Only then is every number checked.
    with np.errstate(over="ignore", invalid="ignore"):
        total = features.sum()
    if not np.isfinite(total) and not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise DataError(f"{path}: '{name}' holds NaN or infinity in row {row}; extract its features again.")
    return features
