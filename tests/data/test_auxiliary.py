"""Auxiliary captions: found, ordered, cut, padded; said when they are missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from prvr.cli import main
from prvr.data import DataError, Dataset, check_collections
from prvr.training import Run


@pytest.fixture
def root(world: Path, tmp_path: Path, files: Any) -> Path:
    """The tiny world with three captions for every video but the first of each split, which has none."""
    shutil.copytree(world, tmp_path / "root")
    shutil.rmtree(tmp_path / "root" / "synth" / ".prvr-cache", ignore_errors=True)
    rng = np.random.default_rng(0)
    features = {}
    for split in ("train", "val", "test"):
        for video in Dataset.load(tmp_path / "root", "synth", split).video_ids[1:]:
            for name, words in (("10.0-12.0", 4), ("2.5-10", 50), ("0-2.5", 2)):
                features[f"{video}#{name}"] = rng.standard_normal((words, 20), dtype=np.float32)
    files.h5(tmp_path / "root" / "synth" / "TextData" / "roberta_synth_caption_feat.hdf5", features)
    return tmp_path / "root"


def test_captions_are_in_order_of_their_numbers_cut_and_padded(root: Path) -> None:
    dataset = Dataset.load(root, "synth", "val", words=6, caption_slots=2)
    batch = dataset.video_batch([1, 0])
    assert batch.captions is not None
    assert batch.caption_mask is not None
    assert batch.captions.shape == (2, 2, 6, 20)
    assert batch.caption_mask.sum(-1).tolist() == [[2, 6], [0, 0]]  # 0–2.5 s, then 2.5–10 s; the first video has none
    assert bool((batch.captions[~batch.caption_mask] == 0).all())
    lengths = batch.captions[batch.caption_mask].norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths), atol=1e-3, rtol=0)
    part = dataset.subset([1])
    again = part.train_batch([0]).videos
    assert again.captions is not None
    torch.testing.assert_close(again.captions[0], batch.captions[0])


def test_a_batch_without_any_caption_still_has_a_slot(root: Path) -> None:
    batch = Dataset.load(root, "synth", "val", caption_slots=2).video_batch([0])
    assert batch.captions is not None
    assert batch.captions.shape == (1, 2, 1, 20)


def test_a_model_that_reads_captions_says_where_they_are_missing(world: Path) -> None:
    with pytest.raises(DataError, match=r"roberta_synth_caption_feat.hdf5 is missing.*--model.captions False"):
        Dataset.load(world, "synth", "val", caption_slots=2)


def test_the_check_mentions_them(world: Path, root: Path, files: Any) -> None:
    rows = {row.item: row for row in check_collections(world).rows}
    assert rows["auxiliary captions"].found == "none (optional; Cap4Video then trains without them)"
    rows = {row.item: row for row in check_collections(root).rows}
    assert rows["auxiliary captions"].found == "roberta_synth_caption_feat.hdf5: 207 of 69 videos, 20 wide"
    assert check_collections(root).ok
    files.h5(
        root / "synth" / "TextData" / "roberta_synth_caption_feat.hdf5", {"a#0": np.ones((2, 7), dtype=np.float32)}
    )
    assert not check_collections(root).ok


PRESET = """
method = "cap4video"
batch_size = 8
selection = "last"
[data]
collection = "synth"
[model]
visual_width = 24
query_width = 20
width = 16
heads = 2
layers = 1
frames = 24
caption_slots = 2
[backbone_stage]
epochs = 1
[trace_stage]
epochs = 0
"""


def test_training_and_evaluation_read_them_where_they_are_and_say_so_where_not(
    world: Path, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "tiny.toml"
    preset.write_text(PRESET, encoding="utf-8")
    for name, data, reads in (("with", root, True), ("without", world, False)):
        run = tmp_path / name
        assert main(["train", str(preset), "--data", str(data), "--out", str(run), "--device", "cpu"]) == 0
        assert Run(run).record["config"]["model"]["captions"] is reads
        assert main(["eval", str(run), "--device", "cpu"]) == 0
        said = "Cap4Video without captions" in " ".join(capsys.readouterr().out.split())
        assert said is not reads
    assert main(["train", str(preset), "--data", str(root), "--out", str(tmp_path / "with"), "--resume"]) == 0
    assert main(["eval", str(tmp_path / "with"), "--data", str(world), "--device", "cpu"]) == 1  # it needs its captions
    assert "caption_feat.hdf5 is missing" in " ".join(capsys.readouterr().err.split())
