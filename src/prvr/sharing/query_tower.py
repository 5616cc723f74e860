"""The query encoder of a run as a file for other programs: ONNX, or a program of ``torch.export``.

Inputs are ``words`` (Q, L, width of the word features) and ``mask`` (Q, L), true where a word is, for any number of
queries and of words up to the model's. The output is ``vectors`` (Q, D): what ``Backbone.encode_queries`` gives, which
galleries are scored with. What the file is made of is in its metadata under ``prvr``, as JSON.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import prvr
from prvr.backbones import Backbone
from prvr.files import whole_file
from prvr.media import file_hash, require_onnx, require_onnxruntime
from prvr.sharing.layout import SharingError
from prvr.training import Run

METADATA_KEY = "prvr"
TOLERANCE = 1e-5  # the largest difference to the model's own vectors that is accepted
_OPSET = 20
_AXES = {0: "queries", 1: "length"}


@dataclass(frozen=True)
class TowerDescription:
    """What a converted query encoder is made of."""

    method: str
    query_width: int  # of the word features that it reads
    words: int  # most words of a query
    width: int  # D of its vectors
    collection: str  # the dataset that it was trained on
    data: str | None  # that dataset's fingerprint, where the run knows it
    features: dict[str, object]  # the recipe of the word features, where it is known
    weights: str  # sha256 of the run's file of weights
    prvr: str  # version


class QueryTower(nn.Module):
    """A backbone's query encoder as a module of its own."""

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        return self.backbone.encode_queries(words, mask)


def load_query_tower(run: Run, weights: str | None = None) -> tuple[QueryTower, TowerDescription]:
    """The query encoder of a run. Raises ``SharingError`` for a method whose queries are not one vector each."""
    model, _ = run.load_model(weights)
    config, backbone = run.config, model.backbone
    tower = QueryTower(backbone).eval()
    vectors = tower(*made_queries(backbone, 2, backbone.config.words))
    if vectors.shape != (2, backbone.width):
        raise SharingError(
            f"{backbone.method} compares single words with each video, so its queries are not one vector each: there "
            "is no query encoder to convert"
        )
    _drop_other_parts(tower, vectors)
    record, name = run.record, weights or config.selection
    described = TowerDescription(
        method=backbone.method,
        query_width=backbone.config.query_width,
        words=backbone.config.words,
        width=backbone.width,
        collection=config.data.collection,
        data=record.get("fingerprint"),
        features=dict(run.features.get("queries", {})),
        weights=file_hash(run.path / "weights" / name / "model.safetensors"),
        prvr=prvr.__version__,
    )
    return tower, described


def _drop_other_parts(tower: QueryTower, vectors: Tensor) -> None:
    """Remove parameters that queries do not pass through: those of the video encoder."""
    if vectors.requires_grad:
        torch.autograd.backward(vectors.sum())
        for module in tower.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                if parameter.grad is None:
                    module.register_parameter(name, None)
    tower.zero_grad()
    tower.requires_grad_(False)


def made_queries(backbone: Backbone, count: int, words: int) -> tuple[Tensor, Tensor]:
    """Made-up queries of several lengths up to ``words``: features (Q, words, width) and mask (Q, words)."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(count, words, backbone.config.query_width, generator=generator)
    lengths = torch.randint(1, words + 1, (count,), generator=generator)
    lengths[0] = words
    return features, torch.arange(words) < lengths[:, None]


def write_onnx(tower: QueryTower, described: TowerDescription, path: Path) -> float:
    """Write a query encoder as ONNX and compare it with the model; returns the largest difference.

    Raises:
        SharingError: torch cannot convert the method, or the file does not give the model's vectors.
        MissingExtra: ``onnx`` or ``onnxruntime`` is not installed.
    """
    onnx, runtime = require_onnx(), require_onnxruntime()
    with whole_file(path) as partial:
        with _explained(described.method, "ONNX"):
            torch.onnx.export(
                tower,
                made_queries(tower.backbone, 2, min(5, described.words)),
                str(partial),
                input_names=["words", "mask"],
                output_names=["vectors"],
                dynamic_axes={"words": _AXES, "mask": _AXES, "vectors": {0: "queries"}},
                opset_version=_OPSET,
                dynamo=False,  # the newer exporter needs another package; the same graph
            )
        stored = onnx.load(str(partial))
        stored.producer_name, stored.producer_version = "prvr", prvr.__version__
        entry = stored.metadata_props.add()
        entry.key, entry.value = METADATA_KEY, json.dumps(asdict(described))
        onnx.save(stored, str(partial))
        session = runtime.InferenceSession(str(partial), providers=["CPUExecutionProvider"])

        def converted(words: Tensor, mask: Tensor) -> Tensor:
            return torch.from_numpy(session.run(None, {"words": words.numpy(), "mask": mask.numpy()})[0])

        return _require_same(tower, converted, path)


def write_torch_export(tower: QueryTower, described: TowerDescription, path: Path) -> float:
    """Write a query encoder as a program of ``torch.export`` (.pt2) and compare it; returns the largest difference."""
    queries, length = torch.export.Dim("queries", min=1), torch.export.Dim("length", min=1, max=described.words)
    shapes = {"words": {0: queries, 1: length}, "mask": {0: queries, 1: length}}
    with whole_file(path) as partial:
        with _explained(described.method, "torch.export"):
            sample = made_queries(tower.backbone, 3, min(5, described.words))
            program = torch.export.export(tower, sample, dynamic_shapes=shapes)
            with partial.open("wb") as file:
                torch.export.save(program, file, extra_files={METADATA_KEY: json.dumps(asdict(described))})
        with partial.open("rb") as file:
            return _require_same(tower, torch.export.load(file).module(), path)


def _require_same(tower: QueryTower, converted: Callable[[Tensor, Tensor], Tensor], path: Path) -> float:
    """The largest difference between the file and the model, over one query, many, and short ones."""
    largest, longest = 0.0, tower.backbone.config.words
    with torch.inference_mode():
        for count, words in ((1, 1), (7, longest), (33, max(1, longest // 2))):
            inputs = made_queries(tower.backbone, count, words)
            largest = max(largest, float((converted(*inputs) - tower(*inputs)).abs().max()))
    if not largest <= TOLERANCE:
        raise SharingError(f"{path} is not written: its vectors would differ from the model's by {largest:.2g}")
    return largest


@contextmanager
def _explained(method: str, kind: str) -> Iterator[None]:
    """One sentence for whatever torch's exporters raise; their warnings and progress are not shown."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as problem:
        first = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        raise SharingError(f"torch cannot convert the query encoder of {method} to {kind}: {first}") from problem
    finally:
        log.setLevel(level)
