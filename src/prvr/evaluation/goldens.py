"""Golden numbers: outputs of a faithful implementation of a method, and how far ours are from them.

A folder of goldens holds, per method, ``NAME.npz`` (this repository's trimmed form) or a folder ``NAME`` with
``config.json``, ``io.safetensors`` and ``weights.safetensors``. They hold the authors' hyper-parameter and key names,
so recomputing their scores also shows that an official state dict loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

import prvr
from prvr.backbones import Backbone, from_official
from prvr.tokens import VideoBatch
from prvr.trace import TraceConfig, trace_evidence

_KINDS = {"rough": "<f4", "float32": "<f4", "float64": "<f8", "int64": "<i8"}
_INPUTS = {  # ours -> what the fixtures call it
    "queries": ("in.text_feat", "query_feat", "query_tokens", "text_vec"),
    "query_mask": ("in.text_mask", "query_mask"),
    "frames": ("in.frame_video_features", "video_feat", "frames"),
    "frame_mask": ("in.videos_mask", "video_mask"),
    "clips": ("in.clip_video_features",),
    "captions": ("caption_tokens",),
    "caption_mask": ("caption_mask",),
    "clip_sizes": ("in.merge_size",),
}
_SCORES = ("score.fused", "out.fused", "fused_scores", "scores")
_HEADS = ("meanP", "seqLSTM", "seqTransf", "tightTransf")  # of CLIP4Clip: one fixture holds the scores of all
_PROJECTIONS = ("query", "register_key", "frame_key", "frame_value")


@dataclass(frozen=True)
class Golden:
    """A method's configuration under its authors' names, weights under their keys, inputs and expected outputs."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    @property
    def weights(self) -> dict[str, Tensor]:
        return {k.removeprefix("weights:"): t for k, t in self.tensors.items() if k.startswith("weights:")}

    def tolerance(self, name: str) -> float:
        given = self.config.get("tolerance", {"default": 1e-4})
        return float(given.get(name, given["default"]))

    def check(self, name: str, value: Tensor) -> None:
        expected = self.tensors[name]
        worst = float((value.detach() - expected).abs().max())
        assert worst <= self.tolerance(name), f"{name} differs by {worst:.2e}"

    def first(self, names: Iterable[str]) -> Tensor | None:
        """The first of these tensors that is there."""
        return next((self.tensors[name] for name in names if name in self.tensors), None)


class Checked(NamedTuple):
    """How far recomputed scores are from golden ones."""

    error: float  # largest absolute difference
    tolerance: float

    @property
    def holds(self) -> bool:
        return self.error <= self.tolerance


def repository_goldens() -> Path | None:
    """The goldens of the source tree this package runs from; None for an installed package."""
    folder = Path(prvr.__file__).parents[2] / "tests" / "golden"
    return folder if folder.is_dir() else None


def read_golden(folder: str | Path, name: str) -> Golden | None:
    """A method's golden in either form, or None where the folder has none."""
    packed, loose = Path(folder) / f"{name}.npz", Path(folder) / name
    if packed.is_file():
        return _read_packed(packed)
    if not (loose / "io.safetensors").is_file():
        return None
    weights = load_file(loose / "weights.safetensors") if (loose / "weights.safetensors").is_file() else {}
    tensors = load_file(loose / "io.safetensors") | {f"weights:{key}": tensor for key, tensor in weights.items()}
    return Golden(json.loads((loose / "config.json").read_text("utf-8")), tensors)


def _read_packed(path: Path) -> Golden:
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["index"]))
        flat = {
            kind: np.ascontiguousarray(file[kind].T).reshape(-1).view(t) for kind, t in _KINDS.items() if kind in file
        }
    used = dict.fromkeys(flat, 0)
    tensors = {}
    for key, kind, shape in about["tensors"]:
        size = int(np.prod(shape))
        tensors[key] = torch.from_numpy(flat[kind][used[kind] : used[kind] + size].reshape(shape).copy())
        used[kind] += size
    return Golden(about["config"], tensors)


@torch.no_grad()
def check_scores(method: str, golden: Golden) -> Checked:
    """Load the golden's official state dict and recompute its scores of every query against every video."""
    heads = {f"{head}_logits": {"sim_header": head} for head in _HEADS if f"{head}_logits" in golden.tensors}
    name = next((name for name in _SCORES if name in golden.tensors), None)
    cases: Mapping[str, dict[str, Any]] = heads or ({} if name is None else {name: {}})
    if not cases:
        raise ValueError(f"the {method} golden holds no scores; expected one of {', '.join(_SCORES)}")
    errors = []
    for expected, changed in cases.items():
        model = from_official(method, golden.weights, golden.config | changed)
        errors.append(float((_scores(model, golden) - golden[expected]).abs().max()))
    return Checked(max(errors), max(golden.tolerance(expected) for expected in cases))


def check_trace(golden: Golden) -> Checked:
    """The operator in float64 on the golden's vectors: the worst of evidence and final score."""
    c, frames = golden.config, golden["frames"]
    mask = torch.arange(frames.shape[1]) < golden["lengths"][:, None]
    projections = {name: golden[f"projection.{name}.weight"] for name in _PROJECTIONS}
    config = TraceConfig(c["lam"], c["gamma"], c["eta"], c["tau_r"])
    evidence = trace_evidence(golden["query"], golden["registers"], frames, mask, projections, config)
    final = golden["base"] + config.fusion_weight * evidence.score
    pairs = ((evidence.score, golden["trace"]), (final, golden["final"]))
    return Checked(max(float((found - known).abs().max()) for found, known in pairs), 1e-9)


def _scores(model: Backbone, golden: Golden) -> Tensor:
    found = {name: golden.first(names) for name, names in _INPUTS.items()}
    queries, frames, frame_mask = found["queries"], found["frames"], found["frame_mask"]
    if queries is None or frames is None or frame_mask is None:
        raise ValueError(f"the {model.method} golden lacks queries, frames or their mask")
    mask, clips = found["query_mask"], found["clips"]
    videos = VideoBatch(
        frames,
        frame_mask,
        frames.new_zeros(len(frames), 0, frames.shape[2]) if clips is None else clips,
        captions=found["captions"],
        caption_mask=found["caption_mask"],
        clip_sizes=found["clip_sizes"],
    )
    words = model.encode_queries(queries, queries.new_ones(queries.shape[:2]) if mask is None else mask)
    return model.base_score(words, model.encode_video_batch(videos))
