"""The naive form of the measured work, in ``benchmarks/naive.py``. The package does not include it."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import prvr


@functools.cache
def naive() -> Any | None:
    """Import the module; None where prvr runs without its source tree."""
    path = Path(prvr.__file__).resolve().parents[2] / "benchmarks" / "naive.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("prvr_naive_baseline", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
