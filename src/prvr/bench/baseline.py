"""The naive form of the work, where the source tree holds it (``benchmarks/naive.py``): no part of the package."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import prvr


@functools.cache
def naive() -> Any | None:
    """The module, or None where prvr runs without its source tree."""
    path = Path(prvr.__file__).resolve().parents[2] / "benchmarks" / "naive.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("prvr_naive_baseline", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
