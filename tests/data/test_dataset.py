"""A split as batches of tensors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from prvr.data import DataError, Dataset, normalise_rows, read_captions
from prvr.data.stores import H5Store

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "data.npz", allow_pickle=False)


def write_collection(files: Any, root: Path, *, big: bool = False) -> Path:
    """The five raw videos and nine raw queries of the reference batch, as files; captions are not grouped by video."""
    text, store = root / "mini" / "TextData", root / "mini" / "FeatureData" / "feat"
    text.mkdir(parents=True)
    store.mkdir(parents=True)
    videos = {f"v{i}": GOLDEN[f"raw.video.{i}"] for i in range(5)}
    queries = {
        f"v{name.split('.')[2]}#{name.split('.')[3]}": GOLDEN[name] for name in GOLDEN if name.startswith("raw.query.")
    }
    (files.bigfile(store, videos) if big else files.h5(store / "feature.hdf5", videos))
    files.h5(text / "roberta_mini_query_feat.hdf5", queries)
    order = sorted(queries, key=lambda name: (name.split("#")[1], name))
    (text / "minitrain.caption.txt").write_text("".join(f"{name} words\n" for name in order))
    return root


@pytest.mark.parametrize("big", [False, True])
def test_a_training_batch_matches_the_reference(files: Any, tmp_path: Path, big: bool) -> None:
    """Expected: the batch that the reference numbers of the backbones start from."""
    data = Dataset.load(write_collection(files, tmp_path, big=big), "mini", "train")
    batch = data.train_batch(torch.arange(5))
    assert batch.videos.ids == tuple(f"v{i}" for i in GOLDEN["collate_order"])
    pairs = {
        "in.clip_video_features": batch.videos.clips,
        "in.frame_video_features": batch.videos.frames,
        "in.videos_mask": batch.videos.frame_mask.float(),
        "in.text_feat": batch.queries.tokens,
        "in.text_mask": batch.queries.mask.float(),
        "in.text_labels": batch.labels,
    }
    for name, tensor in pairs.items():
        np.testing.assert_allclose(tensor.numpy(), GOLDEN[name], atol=1e-6, rtol=0, err_msg=name)


def test_videos_and_queries_keep_the_order_of_the_caption_file(world: Path) -> None:
    data = Dataset.load(world, "synth", "test")
    captions = read_captions(world / "synth" / "TextData" / "synthtest.caption.txt")
    assert data.query_ids == tuple(caption.id for caption in captions)
    assert data.video_ids == tuple(dict.fromkeys(caption.video for caption in captions))
    assert [data.video_ids[row] for row in data.query_video.tolist()] == [caption.video for caption in captions]
    assert [id for batch in data.video_batches(5) for id in batch.ids] == list(data.video_ids)
    assert [id for batch in data.query_batches(7) for id in batch.ids] == list(data.query_ids)


def test_batches_hold_each_rows_features_and_zeros_beyond(world: Path) -> None:
    data = Dataset.load(world, "synth", "test")
    batch = data.video_batch([3, 0])
    with H5Store(world / "synth" / "FeatureData" / "synth" / "feature.hdf5") as store:
        for row, video in enumerate(batch.ids):
            expected = normalise_rows(store.read(video))
            count = int(batch.frame_mask[row].sum())
            np.testing.assert_allclose(batch.frames[row, :count].numpy(), expected, atol=1e-6)
            assert not batch.frames[row, count:].any()
    assert batch.frames.shape[1] == int(batch.frame_mask.sum(1).max())
    assert batch.clips.shape == (2, 32, data.visual_width)


def test_training_labels_are_contiguous_and_frames_descend(world: Path) -> None:
    data = Dataset.load(world, "synth", "train")
    batch = data.train_batch(torch.randperm(len(data))[:11])
    lengths = batch.videos.frame_mask.sum(1)
    assert (lengths.diff() <= 0).all()
    assert (batch.labels.diff() >= 0).all()
    owners = [batch.videos.ids[label] for label in batch.labels.tolist()]
    assert [query.partition("#")[0] for query in batch.queries.ids] == owners
    every = [caption.id for caption in data.captions if caption.video in batch.videos.ids]
    assert sorted(batch.queries.ids) == sorted(every)


def test_words_and_frames_are_cut_as_asked(world: Path, tmp_path: Path) -> None:
    data = Dataset.load(world, "synth", "val", clips=4, frames=10, words=3, cache_dir=tmp_path)
    assert data.clips == 4
    assert data.video_batch(range(len(data))).frames.shape[1] == 10
    assert data.query_batch([0, 1]).tokens.shape[1] == 3
    assert any(tmp_path.iterdir())


def test_several_positives_are_rows_of_the_gallery(world: Path) -> None:
    data = Dataset.load(world, "synth", "test")
    assert any(len(rows) > 1 for rows in data.positives)
    assert all(own in rows for own, rows in zip(data.query_video.tolist(), data.positives, strict=True))


def test_positives_outside_the_gallery_are_dropped(files: Any, tmp_path: Path) -> None:
    root = write_collection(files, tmp_path)
    lines = [
        '{"query_id": "v0#0", "gt_video_ids": ["v2", "elsewhere"]}',
        '{"query_id": "v1#0", "gt_video_ids": ["no"]}',
    ]
    (root / "mini" / "TextData" / "minitrain.gt.jsonl").write_text("\n".join(lines))
    data = Dataset.load(root, "mini", "train")
    assert data.positives[data.query_ids.index("v0#0")] == (2,)
    assert data.positives[data.query_ids.index("v1#0")] == (1,)
    assert data.positives[data.query_ids.index("v2#0")] == (2,)


def test_a_subset_is_a_dataset_of_its_own(world: Path) -> None:
    data = Dataset.load(world, "synth", "train")
    part = data.subset([7, 2, 30])
    assert part.video_ids == tuple(data.video_ids[row] for row in (7, 2, 30))
    assert [part.video_ids[row] for row in part.query_video.tolist()] == [c.video for c in part.captions]
    assert all(row < 3 for rows in part.positives for row in rows)
    whole, own = data.train_batch([7, 2, 30]), part.train_batch([0, 1, 2])
    assert whole.queries.ids == own.queries.ids
    assert torch.equal(whole.videos.frames, own.videos.frames)
    assert torch.equal(whole.videos.clips, own.videos.clips)
    assert torch.equal(whole.queries.tokens, own.queries.tokens)
    with pytest.raises(ValueError, match="twice"):
        data.subset([1, 1])


def test_moving_to_a_device_changes_no_number(world: Path) -> None:
    data = Dataset.load(world, "synth", "test")
    moved = data.to("meta")  # a device without numbers: shows that nothing is assembled on the host
    batch = moved.train_batch([0, 1, 2])
    assert {t.device.type for t in (batch.videos.frames, batch.videos.clips, batch.queries.tokens, batch.labels)} == {
        "meta"
    }
    assert torch.equal(data.to("cpu").video_batch([4]).frames, data.video_batch([4]).frames)


def test_features_are_read_once_and_again_when_they_change(files: Any, world: Path, tmp_path: Path) -> None:
    root = write_collection(files, tmp_path)
    before = Dataset.load(root, "mini", "train").video_batch([0]).frames
    store = root / "mini" / "FeatureData" / "feat" / "feature.hdf5"
    content, stat = store.read_bytes(), store.stat()
    store.write_bytes(b"\0" * len(content))  # unreadable, but of the same size and time: the cache is used
    os.utime(store, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert torch.equal(Dataset.load(root, "mini", "train").video_batch([0]).frames, before)
    files.h5(store, {f"v{i}": 1 + GOLDEN[f"raw.video.{i}"] for i in range(5)})
    assert not torch.equal(Dataset.load(root, "mini", "train").video_batch([0]).frames, before)


def test_what_has_no_features_is_counted_and_named(files: Any, tmp_path: Path) -> None:
    root = write_collection(files, tmp_path)
    captions = root / "mini" / "TextData" / "minitrain.caption.txt"
    original = captions.read_text()
    captions.write_text(original + "".join(f"ghost{i}#0 boo\n" for i in range(5)))
    with pytest.raises(DataError, match=r"5 of 10 videos named in the captions \(ghost0, ghost1, ghost2 and 2 more\)"):
        Dataset.load(root, "mini", "train")
    captions.write_text(original + "v0#9 boo\n")
    with pytest.raises(DataError, match=r"1 of 10 captions \(v0#9\)"):
        Dataset.load(root, "mini", "train")


def test_moments_come_along(world: Path) -> None:
    data = Dataset.load(world, "synth", "val")
    assert data.moments is not None
    assert set(data.moments) == set(data.query_ids)


def test_a_damaged_cache_is_refused_with_the_way_out(files: Any, tmp_path: Path) -> None:
    root = write_collection(files, tmp_path)
    Dataset.load(root, "mini", "train")
    (table,) = root.glob("mini/.prvr-cache/*/frames.f32")
    table.write_bytes(table.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"is damaged .* delete it"):
        Dataset.load(root, "mini", "train")
