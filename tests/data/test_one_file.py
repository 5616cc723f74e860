"""Features that are published as one file: frames and words are found under its name, and known ones are checked."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from prvr.data import Collection, DataError, Dataset, check_collections


def write(root: Path, frames: str, words: str, *, rows: int = 3, last: float = 1.0) -> Path:
    text, features = root / "activitynet" / "TextData", root / "activitynet" / "FeatureData"
    text.mkdir(parents=True)
    features.mkdir()
    with h5py.File(features / frames, "w") as videos, h5py.File(text / words, "w") as queries:
        for video in ("one", "two"):
            videos[video] = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
            queries[f"v_{video}#0"] = np.concatenate([np.ones((rows, 5)), np.full((1, 5), last)]).astype(np.float32)
    lines = "v_one#0 a sentence\nv_two#0 another\n"
    (text / "activitynettrain.caption.txt").write_text(lines, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ("activitynet_clip_L14.h5", "activitynet_clip_L14.h5"),
        ("activitynet_slowfast_clip.h5", "activitynet_slowfast_clip_text.h5"),
        ("new_clip_vit_32_activitynet_vid_features.hdf5", "clip_ViT_B_32_activitynet_query_feat_ours_word.hdf5"),
    ],
)
def test_frames_and_words_are_found_and_ids_may_lack_their_prefix(tmp_path: Path, frames: str, words: str) -> None:
    files = Collection.find(write(tmp_path, frames, words), "activitynet")
    assert (files.video_features.name, files.query_features.name) == (frames, words)
    merged = Dataset.load(tmp_path, "activitynet", "train", rule="merged", words=77)
    plain = Dataset.load(tmp_path, "activitynet", "train", rule="unnormalised")
    assert merged.visual_feature == frames.rpartition(".")[0]
    batch = merged.video_batch([0, 1])
    assert (batch.frames.shape, batch.clips.shape) == ((2, 128, 6), (2, 32, 6))
    assert batch.clip_sizes is not None
    assert batch.clip_sizes.sum(1).tolist() == [128, 128]
    assert plain.video_batch([1]).clip_sizes is None
    assert float(plain.video_batch([1]).frames.norm(dim=-1).max()) > 1.5  # frames keep their length


def test_the_widths_of_known_files_are_checked(tmp_path: Path) -> None:
    report = check_collections(write(tmp_path, "activitynet_clip_L14.h5", "activitynet_clip_L14.h5"))
    rows = {row.item: row for row in report.rows}
    assert (rows["frame features"].state, rows["frame features"].expected) == ("error", "768 wide")
    assert rows["train videos without features"].found == "0"


@pytest.mark.parametrize(("rows", "last"), [(2, 0.0), (76, 1.0)])
def test_padded_words_are_refused_where_the_last_one_is_the_sentence(tmp_path: Path, rows: int, last: float) -> None:
    write(tmp_path, "activitynet_clip_L14.h5", "activitynet_clip_L14.h5", rows=rows, last=last)
    Dataset.load(tmp_path, "activitynet", "train", words=77)
    with pytest.raises(DataError, match="these word features are padded"):
        Dataset.load(tmp_path, "activitynet", "train", words=77, rule="merged")
