"""Pictures from files and from the network: upright, on white, and bounded."""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from prvr.media import PICTURE_PROGRAM, Image, MediaError, decode_picture, load_picture, picture_bytes
from prvr.processes import python_command

RED = (220, 0, 0)


def half_red() -> Image:
    """Red above, black below; 64 wide, 32 high."""
    image = np.zeros((32, 64, 3), np.uint8)
    image[:16] = RED
    return image


def png(width: int, height: int, rows: bytes, kind: int = 2) -> bytes:
    """A .png file; ``kind`` 2 is RGB, 6 RGBA."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def turned(jpeg: bytes, orientation: int) -> bytes:
    """A .jpg file with the mark that a camera writes when it is held sideways."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0) + b"\0\0\0\0"
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_picture_comes_back(suffix: str, tmp_path: Path) -> None:
    content = picture_bytes(half_red(), suffix)
    (tmp_path / f"picture{suffix}").write_bytes(content)
    for image in (decode_picture(content), load_picture(tmp_path / f"picture{suffix}")):
        assert image.shape == (32, 64, 3)
        assert np.abs(image.astype(int) - half_red()).mean() < 4
    assert decode_picture(content, side=16).shape == (8, 16, 3)


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    content = turned(picture_bytes(half_red(), ".jpg"), 6)  # to be turned clockwise: red is then on the right
    (tmp_path / "photo.jpg").write_bytes(content)
    for image in (decode_picture(content), load_picture(tmp_path / "photo.jpg")):
        assert image.shape == (64, 32, 3)
        assert image[:, 24:, 0].mean() > 200
        assert image[:, :8, 0].mean() < 20


def test_what_is_transparent_becomes_white() -> None:
    rows = b"".join(b"\0" + bytes((*RED, 255)) * 2 + bytes((0, 0, 0, 0)) * 2 for _ in range(4))
    image = decode_picture(png(4, 4, rows, kind=6))
    assert image[:, :2].reshape(-1, 3).tolist() == [list(RED)] * 8
    assert image[:, 2:].min() == 255


def test_what_is_no_picture_or_too_large_is_one_sentence(tmp_path: Path) -> None:
    bomb = png(30_000, 30_000, b"\0" * 1_000_000)  # 2.7 GB of pixels in a kilobyte
    assert len(bomb) < 2000
    for content, reason in (
        (b"", "not a .jpg, .png or .webp"),
        (b"GIF89a" + b"\0" * 100, "not a .jpg, .png or .webp"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "not a .jpg, .png or .webp"),
        (picture_bytes(half_red())[:60], "is damaged"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "is damaged"),
        (bomb, "more than 64 million pixels"),
        (png(2, 100, b"\0" * 700), "more than 20 times as long"),
    ):
        with pytest.raises(MediaError, match=reason):
            decode_picture(content)
    (tmp_path / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><image href='/etc/passwd'/></svg>")
    with pytest.raises(MediaError, match="is not a picture"):
        load_picture(tmp_path / "drawing.svg")
    (tmp_path / "bomb.png").write_bytes(bomb)
    with pytest.raises(MediaError, match="more than 64 million pixels"):
        load_picture(tmp_path / "bomb.png")


def test_the_program_answers_one_request_after_another() -> None:
    content = picture_bytes(half_red(), ".png")

    def request(body: bytes) -> bytes:
        return json.dumps({"size": len(body), "side": 16}).encode() + b"\n" + body

    asked = request(content) + request(b"nonsense") + request(content)
    done = subprocess.run(python_command(PICTURE_PROGRAM), input=asked, capture_output=True, check=True, timeout=120)
    answer, pixels = {"size": 384, "height": 8, "width": 16}, 384
    head, rest = done.stdout.split(b"\n", 1)
    assert json.loads(head) == answer
    problem, rest = rest[pixels:].split(b"\n", 1)
    assert json.loads(problem) == {"problem": "it is not a .jpg, .png or .webp file"}
    head, rest = rest.split(b"\n", 1)
    assert (json.loads(head), len(rest)) == (answer, pixels)
