"""Two-branch methods other than DreamPRVR go through the same trainer: the loss falls, the ranking beats chance."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prvr.cli.train import main
from prvr.training.reporting import read_metrics
from prvr.training.run import Run

METHODS = ("gmmformer", "gmmformer_v2", "mssl")
TINY = """
method = "{method}"
batch_size = 8
selection = "best"
[data]
collection = "synth"
[model]
visual_width = 24
query_width = 20
width = 32
frames = 48
dropout = 0.0
input_dropout = 0.0
hard_negative_epoch = 4
[backbone_stage]
epochs = 6
learning_rate = 3e-3
[trace_stage]
epochs = 0
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_short_run_learns_and_is_kept(method: str, world: Path, tmp_path: Path) -> None:
    preset = tmp_path / "tiny.toml"
    preset.write_text(TINY.format(method=method), encoding="utf-8")
    out = tmp_path / "run"
    torch.set_num_threads(1)
    assert main([str(preset), "--data", str(world), "--out", str(out), "--device", "cpu"]) == 0
    epochs = read_metrics(out)
    first, last = (sum(epoch["loss"].values()) for epoch in (epochs[0], epochs[3]))  # then negatives become hard
    assert last < 0.9 * first
    sums = [epoch["final"]["sum_r"] for epoch in epochs]
    assert max(sums) > 220  # chance on 16 videos: 100·(1 + 5 + 10)/16 + 100 = 200
    model, about = Run(out).load_model()
    assert model.backbone.method == method
    assert about["validation"]["sum_r"] == max(sums)
