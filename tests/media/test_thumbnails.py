"""Thumbnails, decoded here and by the program that does it for another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.media import THUMBNAIL_PROGRAM, MediaError, load_picture, thumbnail


def test_a_thumbnail_shows_what_is_on_screen(films: Path, tmp_path: Path) -> None:
    (tmp_path / "picture.jpg").write_bytes(thumbnail(films / "steady.mp4", 2.0, width=32))
    picture = load_picture(tmp_path / "picture.jpg")
    assert picture.shape == (24, 32, 3)
    assert picture.mean() == pytest.approx(100, abs=4)  # frame 50 is grey 100
    with pytest.raises(MediaError, match="empty"):
        thumbnail(films / "empty.mp4", 0.0)


def test_the_program_answers_line_by_line(films: Path) -> None:
    films_asked = [{"path": str(films / name), "expected": []} for name in ("text.mp4", "steady.mp4")]
    requests = [{**asked, "time": 1.0, "width": 64} for asked in films_asked]
    lines = "".join(json.dumps(request) + "\n" for request in requests).encode()
    done = subprocess.run([sys.executable, "-m", THUMBNAIL_PROGRAM], input=lines, capture_output=True, check=True)
    refused, rest = done.stdout.split(b"\n", 1)
    answered, picture = rest.split(b"\n", 1)
    assert "not a video" in json.loads(refused)["problem"]
    assert json.loads(answered)["size"] == len(picture)
    assert picture.startswith(b"\xff\xd8")  # a JPEG
    assert done.stderr == b""
