"""QVHighlights' annotation files become captions, correct videos and moments with several windows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prvr.data import (
    DataError,
    Dataset,
    Moment,
    check_collections,
    convert_annotations,
    read_captions,
    read_moments,
    read_positives,
)

LINES = [  # of our own making, in the published form
    {
        "qid": 7,
        "query": "A dog  jumps.",
        "vid": "aa_0.0_150.0",
        "duration": 150,
        "relevant_windows": [[4, 10], [20, 22]],
    },
    {"qid": 8, "query": "a dog jumps.", "vid": "bb_60.0_210.0", "duration": 126, "relevant_windows": [[100, 130]]},
    {"qid": 9, "query": "Rain", "vid": "aa_0.0_150.0", "duration": 150, "relevant_windows": []},
]


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(row) for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_windows_sentences_and_videos_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "anno" / "highlight_train_release.jsonl.gz", LINES)
    hidden = [{key: row[key] for key in ("qid", "query", "vid", "duration")} for row in LINES[:1]]
    write(tmp_path / "anno" / "highlight_test_release.jsonl", hidden)
    write(tmp_path / "anno" / "subs_train.jsonl", [{}])  # comes with the annotations, and is none
    made = convert_annotations(tmp_path / "anno", tmp_path / "qv")
    assert made.splits == {"train": (3, 2, 3), "test": (1, 1, 0)}
    assert made.cut == 1
    text = tmp_path / "qv" / "TextData"
    captions = read_captions(text / "qvtrain.caption.txt")
    assert [(caption.id, caption.sentence) for caption in captions][:2] == [
        ("aa_0.0_150.0#qid7", "A dog jumps."),
        ("bb_60.0_210.0#qid8", "a dog jumps."),
    ]
    moments = read_moments(text / "qvtrain.moments.jsonl")
    assert moments["aa_0.0_150.0#qid7"] == Moment("aa_0.0_150.0", 4.0, 10.0, 150.0, more=((20.0, 22.0),))
    assert moments["bb_60.0_210.0#qid8"].windows == ((100.0, 126.0),)  # no later than the video
    assert len(moments) == 2  # nothing is known about the third
    positives = read_positives(text / "qvtrain.gt.jsonl")
    assert positives["bb_60.0_210.0#qid8"] == ("bb_60.0_210.0", "aa_0.0_150.0")  # the same sentence
    assert not (text / "qvtest.moments.jsonl").exists()
    assert not [path for path in (tmp_path / "qv").iterdir() if path.name != "TextData"]
    with pytest.raises(DataError, match="has captions already"):
        convert_annotations(tmp_path / "anno", tmp_path / "qv")


def test_an_interrupted_conversion_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in ("train", "val"):
        write(tmp_path / "anno" / f"highlight_{split}_release.jsonl", LINES)
    out, replace = tmp_path / "qv", Path.replace
    (out / "..annotations.0f.part").mkdir(parents=True)  # of one that was killed while it wrote
    moved = []

    def interrupted(path: Path, target: Path) -> Path:
        if len(moved) == 5:  # one of the two files of captions is still to come
            raise KeyboardInterrupt
        moved.append(path.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert_annotations(tmp_path / "anno", out)
    assert [name.endswith(".caption.txt") for name in moved] == [False] * 4 + [True]
    monkeypatch.undo()
    assert set(convert_annotations(tmp_path / "anno", out).splits) == {"train", "val"}
    assert [path.name for path in out.iterdir()] == ["TextData"]
    assert len([*(out / "TextData").iterdir()]) == 6


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"qid": None}, "'qid' must be a number"),
        ({"vid": "a b"}, "'vid' must be a video's id"),
        ({"query": " "}, "the query is empty"),
        ({"query": "a \ud800"}, "half a character"),
        ({"duration": 0}, "'duration' must be the video's length"),
        ({"relevant_windows": [[1, 2, 3]]}, "'relevant_windows' must be a list"),
        ({"relevant_windows": [[10, 4]]}, r"the window \[10, 4\] is not a stretch"),
        ({"relevant_windows": [[150, 160]]}, "is not a stretch of a video of 150 s"),
        ({"qid": 8}, "the qid 8 is already on line 1"),
    ],
)
def test_wrong_lines_are_refused_together(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = write(tmp_path / "highlight_val_release.jsonl", [LINES[1], LINES[0] | change, "no object"])
    with pytest.raises(DataError, match=r"2 lines of .* are wrong") as caught:
        convert_annotations(path, tmp_path / "qv")
    assert caught.match(rf":2: .*{says}")
    assert caught.match(r":3: expected a JSON object")
    assert not (tmp_path / "qv" / "TextData").exists()


def test_two_files_of_one_split_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no annotation files"):
        convert_annotations(tmp_path, tmp_path / "qv")
    for name in ("highlight_val_release.jsonl", "qvhighlights_val.jsonl"):
        write(tmp_path / name, LINES)
    with pytest.raises(DataError, match="two files for 'val'"):
        convert_annotations(tmp_path, tmp_path / "qv")


@pytest.mark.parametrize(
    ("frames", "words", "known", "widths"),
    [
        (("slowfast_features", "clip_features"), "clip_text_features", "slowfast-clip", ((2304, 512), 512)),
        (("vid_clip",), "txt_clip", "clip-b32", ((512,), 512)),
        (
            ("qvhighlight_internvideo2_videoclip_6b_w2s",),
            "qvhighlight_internvideo2_llama_text_feature",
            "internvideo2",
            ((768,), 4096),
        ),
    ],
)
def test_published_features_are_read_as_they_are(
    files: Any, tmp_path: Path, frames: tuple[str, ...], words: str, known: str, widths: tuple[tuple[int, ...], int]
) -> None:
    """One file per video and per query, named by video id and qid."""
    rng = np.random.default_rng(0)
    root = tmp_path / "qvhighlights"
    convert_annotations(write(tmp_path / "highlight_train_release.jsonl", LINES), root)
    ending = ".pt" if known == "internvideo2" else ".npz"
    for name, width in zip(frames, widths[0], strict=True):
        videos = {vid: rng.standard_normal((75, width), dtype=np.float32) for vid in ("aa_0.0_150.0", "bb_60.0_210.0")}
        files.folder(root / "FeatureData" / name, videos, ending)
    queries = {f"qid{row['qid']}": rng.standard_normal((5, widths[1]), dtype=np.float32) for row in LINES}
    files.folder(root / "TextData" / words, queries, ending, "last_hidden_state")
    rows = {row.item.rpartition(": ")[2]: row for row in check_collections(tmp_path).rows if known in row.item}
    rows = rows or {row.item: row for row in check_collections(tmp_path).rows}
    assert rows["published as"].found.startswith(f"{known}: ")
    assert rows["published as"].expected == f"prvr train qvhighlights --data.features {known}"
    assert {rows[f"train {what} without features"].found for what in ("videos", "captions")} == {"0"}
    data = Dataset.load(tmp_path, "qvhighlights", "train", visual_feature="+".join(frames))
    assert (data.visual_width, data.query_width) == (sum(widths[0]), widths[1])
    assert data.positives == [(0, 1), (1, 0), (0,)]
