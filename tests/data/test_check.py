"""`check_collections` names what is missing, wrong or different from what was published."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prvr.data import DATASETS, CheckRow, DataError, check_collections


def rows_of(root: Path, collection: str | None = None) -> dict[str, CheckRow]:
    return {row.item: row for row in check_collections(root, collection).rows}


@pytest.fixture
def copy(world: Path, tmp_path: Path) -> Path:
    shutil.copytree(world, tmp_path / "root")
    return tmp_path / "root"


def test_a_whole_collection_is_ok(world: Path) -> None:
    report = check_collections(world)
    assert report.ok
    assert {row.state for row in report.rows} == {"ok"}
    assert {row.collection for row in check_collections(world / "synth").rows} == {"synth"}


def test_each_missing_thing_is_one_row(copy: Path) -> None:
    (copy / "synth" / "TextData" / "roberta_synth_query_feat.hdf5").unlink()
    shutil.rmtree(copy / "synth" / "FeatureData")
    (copy / "synth" / "TextData" / "synthval.gt.jsonl").unlink()
    report = check_collections(copy)
    assert not report.ok
    assert [row.item for row in report.rows if row.state == "error"] == ["frame features", "word features"]
    assert rows_of(copy)["val several positives"].found == "none (optional)"


def test_captions_and_videos_without_features_are_counted(copy: Path) -> None:
    with (copy / "synth" / "TextData" / "synthtest.caption.txt").open("a") as file:
        file.write("ghost#enc#0 nobody opens the box\n")
    rows = rows_of(copy)
    assert rows["test videos without features"].found == "1 (ghost)"
    assert rows["test captions without features"].found == "1 (ghost#enc#0)"
    assert rows["test moments"].state == "warning"


def test_nan_and_a_broken_caption_file_are_reported(files: Any, copy: Path) -> None:
    files.h5(copy / "synth" / "FeatureData" / "synth" / "feature.hdf5", {"a": np.full((2, 3), np.nan, np.float32)})
    (copy / "synth" / "TextData" / "synthval.caption.txt").write_text("alone\n")
    rows = rows_of(copy)
    assert "NaN" in rows["frame features, sample"].found
    assert "found only 'alone'" in rows["val captions"].found


def test_known_datasets_are_held_against_what_was_published(files: Any, copy: Path) -> None:
    """The synthetic files under a known name: widths and counts are not those of the published features."""
    text = copy / "synth" / "TextData"
    for path in list(text.iterdir()):
        path.rename(text / path.name.replace("synth", "charades"))
    (copy / "synth").rename(copy / "charades")
    assert rows_of(copy)["published as"].state == "warning"  # a feature that nobody published
    features = copy / "charades" / "FeatureData"
    (features / "synth").rename(features / DATASETS["charades"].visual_feature)
    rows = rows_of(copy)
    assert rows["published as"].found == "the standard features"
    assert rows["frame features"].state == "error"
    assert rows["frame features"].expected == f"{DATASETS['charades'].visual_width} wide"
    assert rows["test captions"].state == "warning"
    assert rows["test captions"].expected == "1,334 videos, 3,720 sentences"


def test_equal_val_and_test_captions_are_pointed_out(copy: Path) -> None:
    text = copy / "synth" / "TextData"
    shutil.copy(text / "synthtest.caption.txt", text / "synthval.caption.txt")
    assert rows_of(copy)["val and test"].state == "warning"


def test_a_folder_without_collections_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no dataset.*prvr data make"):
        check_collections(tmp_path)
    with pytest.raises(DataError, match="not a folder"):
        check_collections(tmp_path / "nowhere")


def test_a_missing_split_is_said_to_be_missing(copy: Path) -> None:
    (copy / "synth" / "TextData" / "synthtrain.caption.txt").unlink()
    (copy / "synth" / "TextData" / "synthtest.caption.txt").unlink()
    rows = rows_of(copy)
    assert (rows["train captions"].state, rows["test captions"].state) == ("error", "warning")
    assert "missing: no synthtrain.caption.txt" in rows["train captions"].found
    assert not check_collections(copy).ok
