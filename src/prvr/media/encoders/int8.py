"""The picture part of a model in int8, run by ONNX Runtime on a processor.

It is converted once per model and machine, from the loaded weights: weights become int8, with a scale for each output,
and activations are rounded to 8 bits while it runs, with a scale for each product. The patch embedding, attention
between patches and everything that is not a product with weights stay in float32. Converted models are kept in the
user's cache, the last four that were used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.files import NotAnObject, exclusive_lock, read_json_object, whole_folder, write_whole
from prvr.media.encoders.base import Array
from prvr.media.encoders.choice import LEAST_COSINE, has_vnni, int8_versions, least_cosine, user_cache
from prvr.media.encoders.hashes import file_hash
from prvr.media.encoders.preparation import PicturePreparation
from prvr.media.packages import require_onnxruntime, require_quantization

_KEPT = 4  # converted models
_MODEL, _ABOUT = "model.onnx", "about.json"
_OPSET = 20  # of the file; the first with GELU as one operation
_CHECKED = 16  # made pictures that a converted model is compared on
_log = logging.getLogger("prvr.media")


@dataclass(frozen=True)
class Int8Model:
    """A converted model on disk."""

    path: Path
    sha256: str
    cosine: float  # the least to float32, over made pictures

    @property
    def mark(self) -> str:
        """What a recipe must say: nothing where vectors can be compared with those of float32."""
        return "" if self.cosine >= LEAST_COSINE else f"int8 {self.sha256[:12]}"


class Int8Tower:
    """Runs a converted model: (N, 3, H, W) float32 → (N, D)."""

    def __init__(self, path: Path):
        runtime = require_onnxruntime("int8")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the cores free
        options.log_severity_level = 3  # errors
        self.session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, pixels: Tensor) -> Tensor:
        return torch.from_numpy(self.session.run(None, {"pixels": pixels.numpy()})[0])


def converted_model(model: Any, preparation: PicturePreparation, weights: str) -> Int8Model:
    """A model in int8, from the cache or converted now.

    Args:
        model: of the ``transformers`` library, in float32.
        preparation: how pictures become its input.
        weights: the sha256 of its weights.

    Raises:
        MissingExtra: a package of the extra ``int8`` is not installed.
        OSError: the cache cannot be written.
    """
    require_onnxruntime("int8")
    home = user_cache("int8")
    home.mkdir(parents=True, exist_ok=True)
    facts = [weights, str(preparation), torch.__version__, *int8_versions(), has_vnni(), _OPSET]
    folder = home / hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
    with exclusive_lock(home / ".lock", wait=True):
        found = _read(folder)
        if found is None:
            damaged = f"{folder} is damaged. " if folder.exists() else ""
            _log.warning(
                f"{damaged}Converting the picture model to int8, once on this machine: under a minute. Kept in {home}."
            )
            with whole_folder(folder) as beside:
                convert_to_int8(model, preparation, beside / _MODEL)
                found = Int8Model(folder / _MODEL, file_hash(beside / _MODEL), _agreement(model, preparation, beside))
                write_whole(beside / _ABOUT, json.dumps({"sha256": found.sha256, "cosine": found.cosine}))
        with suppress(OSError):  # another user's folder: the order in which models are given up matters little
            os.utime(folder)
        _keep_newest(home)
    return found


def _read(folder: Path) -> Int8Model | None:
    """A whole converted model; None where there is none, or its file is not the one that was written."""
    try:
        about = read_json_object(folder / _ABOUT)
        found = Int8Model(folder / _MODEL, str(about["sha256"]), float(about["cosine"]))
        return found if file_hash(found.path) == found.sha256 else None
    except (NotAnObject, OSError, KeyError, TypeError, ValueError):
        return None


def _keep_newest(home: Path) -> None:
    folders = [folder for folder in home.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    for folder in sorted(folders, key=lambda each: each.stat().st_mtime, reverse=True)[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def convert_to_int8(model: Any, preparation: PicturePreparation, target: Path) -> None:
    """Write the picture part of a model in int8 to a file."""
    quantization = require_quantization()
    root = logging.getLogger()
    handlers = root.handlers[:]  # the quantiser writes to the root logger, which sets up logging for everybody
    root.addHandler(logging.NullHandler())
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tracer about shapes, and of the library about its exporter
            whole = Path(scratch) / "float32.onnx"
            _export(model, preparation, whole)
            quantization.quantize_dynamic(
                whole,
                target,
                op_types_to_quantize=["MatMul", "Gemm"],
                per_channel=True,
                reduce_range=not has_vnni(),  # 7 bits, because sums of products in 16 bits overflow with 8
                weight_type=quantization.QuantType.QInt8,
            )
    finally:
        root.handlers[:] = handlers


def _export(model: Any, preparation: PicturePreparation, target: Path) -> None:
    torch.onnx.export(
        _PictureTower(model).eval(),
        (torch.zeros(2, 3, preparation.fit.height, preparation.fit.width),),
        str(target),
        input_names=["pixels"],
        output_names=["vectors"],
        dynamic_axes={"pixels": {0: "pictures"}, "vectors": {0: "pictures"}},
        opset_version=_OPSET,
        dynamo=False,  # three times as fast as the newer exporter, which needs another package; the same graph
    )


class _PictureTower(torch.nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        return picture_vectors(self.model, pixels)


def picture_vectors(model: Any, pixels: Tensor) -> Tensor:
    """A model's vectors of pictures, (N, 3, H, W) → (N, D)."""
    output = model.get_image_features(pixel_values=pixels)
    # depending on its version, the library returns a tensor or an object that holds it
    return output if isinstance(output, Tensor) else output.pooler_output


@torch.inference_mode()
def _agreement(model: Any, preparation: PicturePreparation, folder: Path) -> float:
    pixels = preparation.pixels(torch.from_numpy(made_pictures(_CHECKED, preparation)))
    expected: Array = picture_vectors(model, pixels).numpy()
    return least_cosine(Int8Tower(folder / _MODEL)(pixels).numpy(), expected)


def made_pictures(count: int, preparation: PicturePreparation) -> NDArray[np.uint8]:
    """Waves of several widths behind discs of several colours, (N, H, W, 3)."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[: preparation.fit.height, : preparation.fit.width]
    pictures = []
    for _ in range(count):
        widths = rng.uniform(0.01, 0.4, (3, 2))
        waves = np.stack([np.sin(x * across) * np.cos(y * down) for across, down in widths], -1)
        middle, size = rng.uniform(0.2, 0.8, 2) * x.shape, rng.uniform(0.1, 0.4) * len(x)
        disc = (y - middle[0]) ** 2 + (x - middle[1]) ** 2 < size**2
        pictures.append(np.where(disc[..., None], rng.integers(0, 256, 3), 127 * waves + 128))
    return np.stack(pictures).astype(np.uint8)
