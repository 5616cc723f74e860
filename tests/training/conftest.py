"""A tiny world and a tiny configuration, small enough to train in a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.data.synth import SIZES, write_world

TINY = """
method = "dreamprvr"
batch_size = 10
[data]
collection = "synth"
[model]
visual_width = 24
query_width = 20
width = 16
blocks = 2
registers = 2
frames = 24
diffusion_steps = 3
hard_negative_epoch = 1
[backbone_stage]
epochs = 2
learning_rate = 1e-3
[trace_stage]
epochs = 4
frozen_epochs = 1
warmup_epochs = 1
fusion_start = 1
fusion_ramp = 2
snapshots = 2
"""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_world(root, SIZES["tiny"], progress=False)
    return root


@pytest.fixture(scope="session")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("preset") / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path
