"""Presets, runs, checkpoints, galleries, evaluations."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save

from prvr.backbones import CheckpointMismatch, read_official_checkpoint
from prvr.evaluation import EvaluationProtocol, EvaluationRecord, RecordError, load_record, save_record
from prvr.scoring import Gallery
from prvr.scoring.disk import GalleryError, GalleryRecord, read_gallery, write_gallery
from prvr.training import ConfigError, Run, RunError, TrainConfig, config_to_dict, load_preset, read_metrics
from prvr.training.run import load_tensors
from tests.conftest import TINY
from tests.fuzz.target import BREAK, Read, Target, of_file, of_files

_RUN = json.dumps({"config": config_to_dict(TrainConfig()), "data": "/data", "versions": {"prvr": "0.1.0"}}).encode()
_METRICS = b'{"epoch": 0, "phase": "backbone", "seconds": 1.5, "loss": {"a": 0.5}}\n{"epoch": 1, "loss": {}}\n'
_TENSORS = save({"a": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.int64)}, {"format": "pt"})


def _official() -> bytes:
    out = io.BytesIO()
    torch.save({"state_dict": {"w": torch.ones(3)}, "config": {"width": 4}, "epoch": 3}, out)
    return out.getvalue()


def _read_run(path: Path) -> None:
    run = Run(path.parent)
    assert run.config is not None
    assert run.data is not None
    run.require_same_data("x")


def _read_gallery(folder: Path) -> None:
    found = read_gallery(folder)
    Gallery.of_arrays(found.about, found.arrays)


def _gallery(scratch: Path) -> Read:
    arrays = {"a": torch.ones(2, 3), "b": torch.ones(2, dtype=torch.float16)}
    record = GalleryRecord({"x": 1}, ["v1", "v2"], arrays, {"c": torch.ones(4)})
    write_gallery(scratch / "gallery", iter([record]))

    def parse(data: bytes) -> None:
        (scratch / "gallery" / "gallery.json").write_bytes(data)
        read_gallery(scratch / "gallery")

    return parse


_ABOUT = json.dumps(
    {
        "format": "prvr-gallery-2",
        "about": {"x": 1},
        "arrays": {"a": {"dtype": "float32", "shape": [2, 3]}, "b": {"dtype": "float16", "shape": [2]}},
        "ids": ["v1", "v2"],
        "shared": {"c": {"dtype": "float32", "shape": [4]}},
    }
).encode()


def _evaluation(scratch: Path) -> Read:
    return of_files(("ranks.csv", "summary.json"), load_record)(scratch)


def _evaluation_files() -> bytes:
    protocol = EvaluationProtocol("synth", "test", "last", (0, 1))
    ranks = {"base": torch.tensor([1, 5, 2]), "trace": torch.tensor([1, 4, 2])}
    record = EvaluationRecord(("q1", "q2", "q,3"), ("v1", "v2", "v3"), ranks, protocol)
    with tempfile.TemporaryDirectory() as place:
        folder = save_record(record, place)
        return BREAK.join([(folder / name).read_bytes() for name in ("ranks.csv", "summary.json")])


TARGETS = (
    Target("preset", (ConfigError,), [TINY.encode()], of_file("own.toml", lambda path: load_preset(str(path)))),
    Target("run", (RunError,), [_RUN], of_file("run.json", _read_run)),
    Target("metrics", (RunError,), [_METRICS], of_file("metrics.jsonl", lambda path: read_metrics(path.parent))),
    Target("safetensors", (RunError,), [_TENSORS], of_file("model.safetensors", load_tensors)),
    Target("official-checkpoint", (CheckpointMismatch,), [_official()], of_file("best.ckpt", read_official_checkpoint)),
    Target("gallery", (GalleryError,), [_ABOUT], _gallery),
    Target("evaluation", (RecordError,), [_evaluation_files()], _evaluation),
)
