"""Annotation files become scripts and queries, or an error that names the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from prvr.data import DataError
from prvr.worlds import read_activitynet, read_charades


def test_charades_is_read_from_a_folder_below_plain_or_gzipped(charades: Path) -> None:
    source = read_charades(charades.parent)
    assert {split: len(scripts) for split, scripts in source.scripts.items()} == {"train": 45, "val": 3, "test": 16}
    assert {split: len(queries) for split, queries in source.annotations.items()} == {"train": 90, "val": 6, "test": 32}
    script = source.scripts["test"][0]
    assert (script.video, script.length, script.setting) == ("TE000", 10.5, ("Greenhouse", "box", "lamp"))
    assert [label.text for label in script.events] == ["Feeding a parrot", "Folding a kite"]
    assert script.events[1].end == 10.5  # its annotator said 30
    assert source.scripts["test"][3].setting == ("box", "lamp")  # a scene called Other says nothing
    assert not any("never" in text or "this" in text for text in source.texts())


def test_times_in_the_wrong_order_are_exchanged_and_told(charades: Path) -> None:
    source = read_charades(charades)
    assert source.notes == ("charades_sta_train.txt: 1 rows end before they start; their times were exchanged",)
    moments = {query.id: query.moment for queries in source.annotations.values() for query in queries}
    assert (moments["TR000#enc#0"].start, moments["TR000#enc#0"].end) == (0.0, 6.0)


def test_a_sentence_of_several_videos_is_true_of_all_of_them(charades: Path) -> None:
    queries = {query.id: query for query in read_charades(charades).annotations["test"]}
    assert queries["TE000#enc#0"].positives == ("TE000", "TE006", "TE012")
    assert queries["TE006#enc#0"].positives == ("TE006", "TE000", "TE012")
    assert queries["TE000#enc#1"].positives == ("TE000",)


def test_activitynet_takes_frames_from_one_annotator_and_queries_from_the_other(activitynet: Path) -> None:
    source = read_activitynet(activitynet)
    assert {split: len(scripts) for split, scripts in source.scripts.items()} == {"train": 29, "val": 3, "test": 8}
    videos = [script.video for scripts in source.scripts.values() for script in scripts]
    assert len(set(videos)) == 40
    script, query = source.scripts["train"][0], source.annotations["train"][1]
    assert query.id == f"{script.video}#enc#2"  # the caption without words keeps its number
    assert (query.moment.start, query.moment.end) == (10.0, 12.0)
    assert all("Annotator 1" in script.events[0].text for script in source.scripts["train"])
    assert all("Annotator 2 sees " in query.sentence for query in source.annotations["test"][::2])
    assert any("without words" in note for note in source.notes)


def test_both_directions_add_training_videos_only(activitynet: Path) -> None:
    source = read_activitynet(activitynet, both_directions=True)
    assert {split: len(scripts) for split, scripts in source.scripts.items()} == {"train": 58, "val": 3, "test": 8}
    swapped = source.scripts["train"][-1]
    assert swapped.video.endswith("_swapped")
    assert "Annotator 2" in swapped.events[0].text
    assert "Annotator 1" in source.annotations["train"][-2].sentence


def test_the_split_does_not_depend_on_the_order_of_the_file(activitynet: Path) -> None:
    before = read_activitynet(activitynet).scripts["test"]
    path = activitynet / "val_1.json.gz"
    table = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps(dict(reversed(table.items()))).encode()))
    assert read_activitynet(activitynet).scripts["test"] == before


def test_what_is_missing_is_named_with_where_to_get_it(charades: Path, activitynet: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        read_charades(tmp_path / "nowhere")
    (charades / "Charades_v1_test.csv.gz").unlink()
    with pytest.raises(DataError, match=r"no Charades_v1_test.csv, neither plain nor gzipped .* annotation archive"):
        read_charades(charades)
    (activitynet / "val_2.json.gz").unlink()
    with pytest.raises(DataError, match=r"no val_2.json, .* ActivityNet Captions"):
        read_activitynet(activitynet)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("Charades_v1_classes.txt", "x1 Something", "expected a code such as c012"),
        ("charades_sta_test.txt", "TE000 0.0 no sentence", "expected VIDEO start end##sentence"),
        ("charades_sta_test.txt", "TE000 zero 3.0##words", "found 'zero' for a time"),
        ("charades_sta_test.txt", "TE#00 0 3.0##words", "cannot be a video id"),
        ("charades_sta_test.txt", "UNKNOWN 0 3.0##words", "1 videos that .* does not list"),
        ("charades_sta_test.txt", "", "holds no sentences"),
        ("Charades_v1_test.csv", "id,scene\nTE000,Attic", "no column objects, actions, length"),
        ("Charades_v1_test.csv", "id,scene,objects,actions,length\nTE000,Attic", "cut short"),
        ("Charades_v1_test.csv", "id,scene,objects,actions,length\nTE000,,,c999 0 1,9", "found the action 'c999 0 1'"),
        ("Charades_v1_test.csv", "id,scene,objects,actions,length\nTE000,,,,0", "expected a length above 0"),
    ],
)
def test_bad_charades_files_are_named(charades: Path, name: str, text: str, message: str) -> None:
    (charades / f"{name}.gz").unlink(missing_ok=True)
    (charades / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_charades(charades)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "one JSON object with an entry per video"),
        ('{"v_a": {"duration": 3, "timestamps": [[0, 1]], "sentences": []}}', "as many 'sentences'"),
        ('{"v_a": {"timestamps": [], "sentences": []}}', "expected 'duration'"),
        ('{"v_a": {"duration": NaN, "timestamps": [], "sentences": []}}', "finite"),
        ('{"v a": {"duration": 3, "timestamps": [], "sentences": []}}', "cannot be a video id"),
        ('{"v_a": {"duration": 3, "timestamps": [[0, 1]], "sentences": ["x y"]}}', "too few to fill"),
    ],
)
def test_bad_activitynet_files_are_named(activitynet: Path, text: str, message: str) -> None:
    (activitynet / "val_1.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_activitynet(activitynet)
