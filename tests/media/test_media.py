"""The room as a whole: importing it is cheap, and what is not installed is named with its remedy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prvr.media import MissingExtra, cut_clip, load_picture, picture_bytes, subtitle_tracks, thumbnail, write_video


def test_importing_the_room_loads_neither_decoders_nor_models() -> None:
    """A search server imports it, and so does the process that decodes thumbnails."""
    heavy = {"av", "torch", "torchcodec", "transformers", "huggingface_hub"}
    program = f"import sys, prvr.media; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "work",
    [
        lambda path: cut_clip(path, 0.0, 1.0, path.with_name("clip.mp4")),
        lambda path: thumbnail(path, 0.0),
        lambda path: load_picture(path),
        lambda path: picture_bytes(np.zeros((2, 2, 3), np.uint8)),
        lambda path: subtitle_tracks(path),
        lambda path: write_video(path, [np.zeros((2, 2, 3), np.uint8)]),
    ],
    ids=["clip", "thumbnail", "load picture", "picture bytes", "subtitles", "write"],
)
def test_without_a_decoder_the_message_holds_the_command_that_installs_it(
    work: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    path = tmp_path / "film.mp4"
    path.write_bytes(b"anything")
    with pytest.raises(MissingExtra, match=r'pip install "prvr\[media\]"'):
        work(path)
