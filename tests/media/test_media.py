"""The room as a whole: importing it costs little."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_room_loads_neither_decoders_nor_models() -> None:
    """A search server imports it, and so does the process that decodes thumbnails."""
    heavy = {"av", "torch", "torchcodec", "transformers", "huggingface_hub"}
    program = f"import sys, prvr.media; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
