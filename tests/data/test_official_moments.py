"""Moments and query types from files in the formats in which datasets publish them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.data import Caption, DataError, Moment, match_moments, read_moments, read_official_moments


def test_tvr_with_types(tmp_path: Path) -> None:
    rows = [
        {"vid_name": "a", "duration": 60.5, "ts": [1, 2.5], "desc": "Ann sits.", "type": "v", "desc_id": 7},
        {"vid_name": "a", "duration": 60.5, "ts": [3, 9], "desc": "She tells Bob.", "type": "vt", "desc_id": 8},
        {"vid_name": "b", "duration": 9, "desc": "of a test split", "type": "t", "desc_id": 9},
    ]
    path = tmp_path / "tvr_val_release.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    captions = [
        Caption("a#enc#1", "a", "she tells  Bob"),
        Caption("a#enc#9", "a", "Ann sits"),
        Caption("c#0", "c", "x"),
    ]
    assert match_moments(captions, read_official_moments([path])) == {
        "a#enc#1": Moment("a", 3.0, 9.0, 60.5, kind="vt"),
        "a#enc#9": Moment("a", 1.0, 2.5, 60.5, kind="v"),  # its words, though not its number
    }


def test_the_command_writes_what_the_dataset_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "charades" / "TextData"
    text.mkdir(parents=True)
    (text / "charadestest.caption.txt").write_text("V1#enc#0 a person opens a door\n", encoding="utf-8")
    official = tmp_path / "official"
    official.mkdir()
    (official / "charades_sta_test.txt").write_text("V1 1.5 34.0##a person opens a door.\n", encoding="utf-8")
    (official / "Charades_v1_classes.txt").write_text("c000 Holding some clothes\n", encoding="utf-8")
    words = ["data", "moments", str(tmp_path), "--annotations", str(official)]
    assert main(words) == 1
    assert "how long is V1?" in capsys.readouterr().err
    (official / "Charades_v1_test.csv").write_text("id,length\nV1,30.5\n", encoding="utf-8")
    assert main(words) == 0
    assert "test: 1 of 1 queries" in (shown := capsys.readouterr().out)
    assert "shortened: 1 window of these annotations that ended after their video" in shown
    assert read_moments(text / "charadestest.moments.jsonl") == {"V1#enc#0": Moment("V1", 1.5, 30.5, 30.5)}
    assert '"end": 30.5' in (text / "charadestest.moments.jsonl").read_text("utf-8")
    (official / "charades_sta_test.txt").write_text("V9 1.5 4.0##a person\n", encoding="utf-8")
    (official / "Charades_v1_test.csv").write_text("id,length\nV9,30.5\n", encoding="utf-8")
    assert main(words) == 1
    assert "are they of another dataset?" in capsys.readouterr().err


def test_activitynet_and_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "val_1.json"
    about = {"v_x": {"duration": 10, "timestamps": [[0, 4], [5, 9]], "sentences": [" One.", "Two."]}}
    path.write_text(json.dumps(about), encoding="utf-8")
    assert [entry.moment for entry in read_official_moments([path])] == [
        Moment("v_x", 0.0, 4.0, 10.0),
        Moment("v_x", 5.0, 9.0, 10.0),
    ]
    for content in ('{"v_x": {"duration": "long", "timestamps": [[0, 4]], "sentences": ["One"]}}', "[1]", "{", "{}"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=r"val_1\.json"):
            read_official_moments([path])


def test_other_json_beside_the_annotations(tmp_path: Path) -> None:
    """It is left out of a folder, and refused where it is named itself."""
    about = {"v_x": {"duration": 10, "timestamps": [[0, 4]], "sentences": ["One."]}}
    (tmp_path / "train.json").write_text(json.dumps(about), encoding="utf-8")
    (tmp_path / "train_ids.json").write_text('["v_x"]', encoding="utf-8")
    (tmp_path / "other.json").write_text('{"v_x": {"timestamps": [[0, 4]], "sentences": ["One."]}}', encoding="utf-8")
    (tmp_path / "tvc.jsonl").write_text('{"vid_name": "a", "ts": [0, 1], "descs": []}\n[1]\n', encoding="utf-8")
    assert [entry.moment for entry in read_official_moments([tmp_path])] == [Moment("v_x", 0.0, 4.0, 10.0)]
    for name in ("train_ids.json", "other.json", "tvc.jsonl"):
        with pytest.raises(DataError, match=name):
            read_official_moments([tmp_path, tmp_path / name])
    (tmp_path / "train.json").write_text(json.dumps(about)[:-9], encoding="utf-8")
    with pytest.raises(DataError, match="not JSON"):  # a download that broke off
        read_official_moments([tmp_path])


def test_files_of_earlier_versions_may_hold_longer_windows(tmp_path: Path) -> None:
    row = {"query_id": "a#0", "video": "a", "start": 2, "end": 40, "duration": 30, "windows": [[2, 40], [31, 35]]}
    (tmp_path / "x.moments.jsonl").write_text(json.dumps(row), encoding="utf-8")
    found = read_moments(tmp_path / "x.moments.jsonl")["a#0"]
    assert (found.windows, found.seconds) == (((2.0, 30.0), (30.0, 30.0)), 28.0)
