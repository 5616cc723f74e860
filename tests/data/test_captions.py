"""Caption, label and moment files are read completely, or refused with the line."""

from __future__ import annotations

import contextlib
import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prvr.data import (
    Annotation,
    Caption,
    DataError,
    Moment,
    read_captions,
    read_moments,
    read_positives,
    write_annotations,
)


def test_a_caption_is_an_id_a_blank_and_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.caption.txt"
    path.write_text("v_1#enc#0  A man # runs.\r\n\nv_1#enc#1 Zwei Männer\n", encoding="utf-8")
    assert read_captions(path) == [
        Caption("v_1#enc#0", "v_1", "A man # runs."),
        Caption("v_1#enc#1", "v_1", "Zwei Männer"),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a#0 fine\na#1\n", ":2: found only 'a#1'"),
        (b"a#0 fine\n\na#0 again\n", ":3: the id 'a#0' is already on line 1"),
        (b"a#0 fine\na#1 caf\xe9\n", ":2: not UTF-8"),
        (b"#enc#0 nobody\n", ":1: the id '#enc#0' names no video"),
        (b"\n \n", "holds no captions"),
    ],
)
def test_a_bad_caption_file_is_refused_with_its_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x.caption.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.caption\.txt") as caught:
        read_captions(path)
    assert says in str(caught.value)


def test_positives_keep_their_order_and_lose_repeats(tmp_path: Path) -> None:
    path = tmp_path / "x.gt.jsonl"
    path.write_text('{"query_id": "a#0", "caption": "x", "gt_video_ids": ["b", "a", "b"]}\n')
    assert read_positives(path) == {"a#0": ("b", "a")}


def test_moments_are_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "x.moments.jsonl"
    path.write_text('{"query_id": "a#0", "video": "a", "start": 1, "end": 2.5, "duration": 30}\n')
    assert read_moments(path) == {"a#0": Moment("a", 1.0, 2.5, 30.0)}


def test_a_query_may_have_several_windows(tmp_path: Path) -> None:
    moment = Moment("a", 4.0, 8.0, 30.0, more=((6.0, 10.0), (20.0, 21.0)))
    write_annotations(tmp_path, "x", "val", [Annotation("a#0", "a dog", moment, ("a",))])
    assert read_moments(tmp_path / "xval.moments.jsonl") == {"a#0": moment}
    assert moment.windows == ((4.0, 8.0), (6.0, 10.0), (20.0, 21.0))
    assert moment.seconds == 7.0  # what two windows share counts once


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (read_positives, '{"query_id": "a"'),
        (read_positives, '["a"]'),
        (read_positives, '{"query_id": "a", "gt_video_ids": "b"}'),
        (read_positives, '{"query_id": 3, "gt_video_ids": []}'),
        (read_moments, '{"query_id": "a", "video": "a", "start": 0, "end": null, "duration": 1}'),
        (read_moments, '{"query_id": "a", "video": "a", "start": 0, "end": NaN, "duration": 1}'),
        (read_moments, '{"query_id": "a", "start": 0, "end": 1, "duration": 1}'),
        (read_moments, '{"query_id": "a", "video": "a", "start": 0, "end": 1, "duration": 1, "windows": [[0]]}'),
        (read_moments, '{"query_id": "a", "video": "a", "start": 0, "end": 1, "duration": 1, "windows": [[2, 3]]}'),
    ],
)
def test_a_bad_json_line_is_refused_with_its_number(tmp_path: Path, read: Callable[[Path], Any], line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(DataError, match=r"x\.jsonl:2:"):
        read(path)


@pytest.mark.parametrize("read", [read_captions, read_positives, read_moments])
def test_a_missing_or_empty_file_is_refused_by_name(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    with pytest.raises(DataError, match="nowhere"):
        read(tmp_path / "nowhere")
    (tmp_path / "empty").touch()
    with pytest.raises(DataError, match="empty"):
        read(tmp_path / "empty")


@pytest.mark.parametrize("read", [read_captions, read_positives, read_moments])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80) | st.text(max_size=40).map(str.encode) | st.just(b"[" * 100_000))
def test_readers_raise_nothing_but_data_errors(tmp_path: Path, read: Callable[[Path], Any], content: bytes) -> None:
    path = tmp_path / "arbitrary"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        read(path)


def test_positives_are_read_from_plain_gzipped_and_zipped_files(tmp_path: Path) -> None:
    text = '{"query_id": "a#enc#0", "caption": "x", "gt_video_ids": ["a", "b", "a"]}\n'
    plain, packed, archive = tmp_path / "l.gt.jsonl", tmp_path / "l.gt.jsonl.gz", tmp_path / "labels.zip"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("one/onedenseval.gt.jsonl", text)
        file.writestr("one/onedenseval.caption.txt", "a#enc#0 x")
        file.writestr("two/twodenseval.gt.jsonl", text.replace("a#", "c#"))
    expected = {"a#enc#0": ("a", "b")}
    assert read_positives(plain) == read_positives(packed) == read_positives(archive, "one") == expected
    with pytest.raises(DataError, match="0 label files for 'three'"):
        read_positives(archive, "three")
    packed.write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        read_positives(packed)
