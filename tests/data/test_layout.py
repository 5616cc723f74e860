"""Where the files of a collection are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.data import DATASETS, Collection, DataError


@pytest.fixture
def charades(tmp_path: Path) -> Path:
    folder = tmp_path / "charades"
    for name in ("TextData/charadestrain.caption.txt", "FeatureData/i3d_rgb_lgi/feature.bin", "FeatureData/other/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_a_collection_is_found_from_the_root_or_from_its_own_folder(charades: Path) -> None:
    for root in (charades.parent, charades, str(charades)):
        assert Collection.find(root, "charades").folder == charades


def test_a_known_dataset_uses_its_standard_feature_unless_told_otherwise(charades: Path) -> None:
    assert Collection.find(charades, "charades").visual_feature == DATASETS["charades"].visual_feature
    assert Collection.find(charades, "charades", "other").visual_feature == "other"


def test_a_feature_may_be_named_with_the_slash_of_its_folder_but_not_by_a_path(charades: Path) -> None:
    assert Collection.find(charades, "charades", "other/").visual_feature == "other"
    assert Collection.find(charades, "charades", "i3d_rgb_lgi/+other/").visual_feature == "i3d_rgb_lgi+other"
    with pytest.raises(DataError, match="give its name alone, as FeatureData shows it: other"):
        Collection.find(charades, "charades", "FeatureData/other")


def test_an_unknown_collection_needs_its_feature_named_where_there_are_several(charades: Path) -> None:
    mine = charades.rename(charades.with_name("mine"))
    with pytest.raises(DataError, match="i3d_rgb_lgi, other"):
        Collection.find(mine.parent, "mine")


def test_hdf5_is_preferred_to_a_bigfile(charades: Path) -> None:
    place = Collection.find(charades, "charades")
    assert place.video_features == place.features
    (place.features / "frames.hdf5").touch()
    assert place.video_features == place.features / "frames.hdf5"
    (place.features / "feature.hdf5").touch()
    assert place.video_features == place.features / "feature.hdf5"


def test_splits_come_in_the_usual_order(charades: Path) -> None:
    for split in ("test", "denseval", "val"):
        (charades / "TextData" / f"charades{split}.caption.txt").touch()
    assert Collection.find(charades, "charades").splits == ("train", "val", "test", "denseval")


def test_optional_files_may_be_absent(charades: Path) -> None:
    place = Collection.find(charades, "charades")
    assert place.positives("train") is None
    (place.text / "charadestrain.gt.jsonl").touch()
    assert place.positives("train") == place.text / "charadestrain.gt.jsonl"
    assert place.moments("train") is None


def test_what_is_missing_is_named(charades: Path, tmp_path: Path) -> None:
    place = Collection.find(charades, "charades")
    with pytest.raises(DataError, match=r"charadestest\.caption\.txt is missing \(it has captions for: train\)"):
        place.captions("test")
    with pytest.raises(DataError, match=r"roberta_charades_query_feat\.hdf5 is missing"):
        _ = place.query_features
    with pytest.raises(DataError, match=r"neither feature\.hdf5 nor feature\.bin"):
        _ = Collection.find(charades, "charades", "other").video_features
    with pytest.raises(DataError, match=r"found in .*: charades"):
        Collection.find(tmp_path, "tvr")
    with pytest.raises(DataError, match="another collection"):
        Collection.find(charades, "tvr")
    with pytest.raises(DataError, match="not a folder"):
        Collection.find(tmp_path / "nowhere", "tvr")
