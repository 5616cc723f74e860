"""TF-PRVR: the published recipe as a method, without training, from feature files to an evaluated run."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from prvr.backbones import build
from prvr.cli import main
from prvr.data import Annotation, Caption, Moment, write_annotations
from prvr.training import Run, load_preset


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
    expected = torch.stack([(queries @ v[m].T).amax(1) for v, m in zip(videos.frames, videos.frame_mask, strict=True)], 1)
    torch.testing.assert_close(found, expected)
    assert found[0, 1] < -0.1  # padding would have given 0
    assert found[1, 0] > 0.5


def test_presets_are_the_published_settings() -> None:
    for dataset in ("activitynet", "charades", "tvr"):
        config = load_preset(dataset, "tf_prvr")
        assert (config.epochs, config.selection) == (0, "last")
        assert config.model == type(config.model)()
        assert (config.model.local, config.model.propagation, config.model.anchors) == ("moments", 0.7, "none")  # type: ignore[attr-defined]
