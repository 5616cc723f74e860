"""BigFiles are read by a scanner, and refused where their files disagree."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from prvr.data import DataError
from prvr.data.bigfile import BIGFILE_NAMES, BigFile, parse_frame_lists

NAMES = st.text(max_size=12)


@pytest.fixture
def folder(files: Any, tmp_path: Path, features: dict[str, NDArray[np.float32]]) -> Path:
    return files.bigfile(tmp_path, features)


@pytest.mark.parametrize("name", BIGFILE_NAMES)
def test_each_of_the_four_files_is_needed(files: Any, folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"lacks {name}"):
        BigFile.open(folder)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("shape.txt", "245", "expected two positive numbers"),
        ("shape.txt", "245 -6", "expected two positive numbers"),
        ("shape.txt", "245 " + "9" * 5000, "expected two positive numbers"),
        ("shape.txt", "246 6", "feature.bin has 5,880 bytes, but"),
        ("id.txt", "a_0 a_1", "names 2 rows, but shape.txt says 245"),
        ("id.txt", "a_0 " * 245, "names the row 'a_0' twice"),
        ("video2frames.txt", "{'a': ['a_0', 'z_9']}", "the frame 'z_9' of video 'a' is not in id.txt"),
        ("video2frames.txt", "{'a': []}", "no frames for the video 'a'"),
        ("video2frames.txt", "{'a': ['a_0'], 'a': ['a_1']}", "the video 'a' twice"),
        ("video2frames.txt", "{}", "lists no videos"),
        ("video2frames.txt", "__import__('os').system('true')", "not a dictionary"),
        ("video2frames.txt", "{'a': __import__('os')}", "cannot be read from character 1"),
        ("video2frames.txt", "{'a': ['a_0'] 'b': ['b_0']}", "cannot be read from"),
        ("video2frames.txt", "{'a': ['a_0']", "cannot be read from"),
    ],
)
def test_files_that_disagree_are_refused(files: Any, folder: Path, name: str, content: str, says: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises(DataError) as caught:
        BigFile.open(folder)
    assert name.removesuffix(".txt") in str(caught.value) or "feature.bin" in str(caught.value)
    assert says in str(caught.value)


def test_a_truncated_matrix_is_refused(folder: Path) -> None:
    path = folder / "feature.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="5,879 bytes"):
        BigFile.open(folder)


@pytest.mark.parametrize("written", ["äβ", "àРх"])  # UTF-8 of the second has bytes that are blanks in Latin-1
def test_names_may_be_in_any_encoding(files: Any, tmp_path: Path, written: str) -> None:
    """Row names are bytes to us; a video's name is what the UTF-8 caption files call it."""
    folder = files.bigfile(tmp_path, {"ab": np.ones((2, 3), dtype=np.float32)})
    for name in ("id.txt", "video2frames.txt"):
        (folder / name).write_bytes((folder / name).read_text().replace("ab", written).encode("utf-8"))
    assert list(BigFile.open(folder).rows) == [written]


@given(lists=st.dictionaries(NAMES, st.lists(NAMES, max_size=4), max_size=4))
def test_the_scanner_reads_what_python_writes(lists: dict[str, list[str]]) -> None:
    assert dict(parse_frame_lists(repr(lists), Path("x"))) == lists


def test_the_scanner_reads_what_people_write() -> None:
    text = """ {\n"a" :\n['a_0' , "a_1",\n],\t'b':('b_0',) ,\n}\n"""
    assert dict(parse_frame_lists(text, Path("x"))) == {"a": ["a_0", "a_1"], "b": ["b_0"]}


@given(text=st.text(alphabet="{}[]():,'\"\\ ab\n", max_size=40))
def test_the_scanner_raises_nothing_but_data_errors(text: str) -> None:
    with contextlib.suppress(DataError):
        list(parse_frame_lists(text, Path("x")))
