"""TF-PRVR: the published recipe as a method, without training, from feature files to an evaluated run."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from prvr.backbones import build
from prvr.cli import main
from prvr.training import ConfigError, TraceModel, config_from_dict, config_to_dict, load_preset


def test_the_score_is_the_best_moment_also_where_all_oppose_the_query() -> None:
    model = build("tf_prvr", visual_width=4, query_width=4)
    frames = torch.zeros(2, 64, 4)
    frames[0] = torch.eye(4).repeat_interleave(16, 0)  # four scenes
    frames[1, :5] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    mask = torch.arange(64) < torch.tensor([[64], [5]])
    words = torch.tensor([[[9.0, 9, 9, 9], [0, 0, 0, -2.0]], [[0, 2.0, 0, 0], [0, 0, 0, 0]]])
    videos = model.encode_videos(frames, mask, frames[:, :0])
    queries = model.encode_queries(words, torch.tensor([[True, True], [True, False]]))
    torch.testing.assert_close(queries, torch.tensor([[0, 0, 0, -1.0], [0, 1.0, 0, 0]]))  # the last real word
    found = model.base_score(queries, videos)
    expected = torch.stack(
        [(queries @ v[m].T).amax(1) for v, m in zip(videos.frames, videos.frame_mask, strict=True)], 1
    )
    torch.testing.assert_close(found, expected)
    assert found[0, 1] < -0.1  # padding would have given 0
    assert found[1, 0] > 0.5


def test_presets_are_the_published_settings() -> None:
    for dataset in ("activitynet", "charades", "tvr"):
        config = load_preset(dataset, "tf_prvr")
        assert (config.epochs, config.selection) == (0, "last")
        assert config.model == type(config.model)()
        assert (config.model.local, config.model.propagation, config.model.anchors) == ("moments", 0.7, "none")  # type: ignore[attr-defined]


def write_clip_features(root: Path, videos: int = 6) -> None:
    """A collection as one file of frames and one of words: the last word of a sentence is in the frames' space."""
    rng = np.random.default_rng(0)
    text, features = root / "charades" / "TextData", root / "charades" / "FeatureData"
    text.mkdir(parents=True)
    features.mkdir()
    scenes = rng.standard_normal((videos, 3, 768)).astype(np.float32)
    with (
        h5py.File(features / "charades_clip_L14.h5", "w") as frames,
        h5py.File(text / "charades_clip_L14.h5", "w") as words,
    ):
        lines = []
        for video, three in enumerate(scenes):
            frames[f"v{video}"] = np.repeat(three, 20, 0) + 0.3 * rng.standard_normal((60, 768)).astype(np.float32)
            for number, scene in enumerate(three):
                caption = f"v{video}#enc#{number}"
                words[caption] = np.stack([*rng.standard_normal((4, 768)), scene]).astype(np.float32)
                lines.append(f"{caption} scene {number} of video {video}\n")
    for split in ("train", "val", "test"):
        (text / f"charades{split}.caption.txt").write_text("".join(lines), encoding="utf-8")


def test_train_makes_a_run_at_once_that_eval_transfer_and_report_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_clip_features(tmp_path / "data")
    run = str(tmp_path / "run")
    assert main(["train", "charades", "--method", "tf_prvr", "--data", str(tmp_path / "data"), "--out", run]) == 0
    assert "tf_prvr has nothing to train; next: prvr eval" in capsys.readouterr().out
    assert main(["eval", run, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["weights"], shown["recalls"]["base"]["r1"]) == ("nothing was trained", 100.0)
    assert main(["transfer", run]) == 0
    assert main(["report", run, "--only", "retrieval"]) == 0
    assert "100.0" in capsys.readouterr().out


def test_features_of_two_spaces_are_refused_in_one_sentence(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(world), "--method", "tf_prvr"]) == 1
    assert "needs frames and sentences in one space, not 24 and 20 wide" in capsys.readouterr().err


def test_asking_it_to_train_is_one_sentence() -> None:
    values = config_to_dict(load_preset("charades", "tf_prvr"))
    values["trace_stage"]["epochs"] = 3
    with pytest.raises(ConfigError, match="tf_prvr has nothing to train: leave both phases out"):
        TraceModel.from_config(config_from_dict(values, "here"))
    values = config_to_dict(load_preset("charades", "xml"))
    values["backbone_stage"]["epochs"] = 0
    with pytest.raises(ConfigError, match="epochs must be at least 1 in all"):
        config_from_dict(values, "here")
