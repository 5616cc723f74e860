"""The picture part of a model, run by OpenVINO on a processor in float32, bfloat16 or int8.

It is converted once per model and machine, from the loaded weights. In int8 the weights are rounded to 8 bits with a
scale for each output, and activations while it runs, with a scale for each 64 numbers of a token. So a large number
spoils only its neighbours, and no pictures are needed to find the scales. In ``int8-static`` the scales of activations
are found before it runs (``static_int8.py``). Everything that is not a product with weights stays in bfloat16 or
float32. Converted models are kept in the user's cache, the last few that were used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.files import NotAnObject, exclusive_lock, read_json_object, whole_folder, write_whole
from prvr.media.encoders.base import Array
from prvr.media.encoders.choice import (
    ROUNDED,
    EngineName,
    least_cosine,
    openvino_versions,
    required_cosine,
    user_cache,
)
from prvr.media.encoders.hashes import file_hash
from prvr.media.encoders.picture_part import picture_vectors, with_own_picture_part
from prvr.media.encoders.preparation import PicturePreparation
from prvr.media.encoders.static_int8 import round_inputs
from prvr.media.packages import require_openvino

_KEPT = 6  # converted models
_MODEL, _WEIGHTS, _ABOUT = "model.xml", "model.bin", "about.json"
_GROUP = 64  # activations that share a scale; 128 are 4 % faster, and less exact where channels differ in size
_WATCHED = 32  # made pictures that the scales of activations are found with
_CHECKED = 16  # other made pictures, that a converted model is compared on
_WATCHED_SEED, _CHECKED_SEED = 0, 1
_EACH = 8  # pictures that are worth a stream of their own: cores then wait less for each other
_log = logging.getLogger("prvr.media")

ConvertedForm: TypeAlias = Literal["float", "int8", "int8-static"]  # what a converted model rounds


@dataclass(frozen=True)
class ConvertedModel:
    """A converted model on disk."""

    path: Path
    sha256: str
    form: ConvertedForm
    cosine: float  # the least to torch's float32, over made pictures

    @property
    def mark(self) -> str:
        """What a recipe must say: nothing where vectors can be compared with those of float32."""
        return "" if self.cosine >= required_cosine(self.form) else f"{self.form} {self.sha256[:12]}"


class OpenVinoTower:
    """Runs a converted model: (N, 3, H, W) float32 → (N, D). Threads that call it wait for each other."""

    def __init__(self, model: Any, engine: EngineName, batch: int = 1, *, profile: bool = False):
        """
        Args:
            model: a file, or what ``convert`` returned.
            engine: the type that it computes in.
            batch: how many pictures it will mostly get at once.
            profile: count the time of every operation.
        """
        core, threads = _core(), torch.get_num_threads()
        bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        # A single picture, such as a search by picture, gets the cores of one stream. A second compiled model with one
        # stream would take 60 to 80 % of the first one's memory again, as OpenVINO 2026.4 shares only the file between
        # them (ViT-B/16: 230 MB in int8-static, 740 MB in fp32). On two cores that other work shared, a picture took
        # 2 % longer (fp32) to 6 % less (int8-static), medians of 75. On idle cores it may gain more.
        streams = max(1, min(threads, batch // _EACH))
        options = {
            "INFERENCE_PRECISION_HINT": "bf16" if engine == "bf16" or (engine in ROUNDED and bf16) else "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": str(_GROUP) if engine == "int8" else "0",
            "NUM_STREAMS": str(streams),
            "INFERENCE_NUM_THREADS": str(threads),
            "ENABLE_CPU_PINNING": "NO",  # decoders share these cores
            "PERF_COUNT": "YES" if profile else "NO",
        }
        compiled = core.compile_model(str(model) if isinstance(model, Path) else model, "CPU", options)
        self.requests = [compiled.create_infer_request() for _ in range(streams)]
        self._lock = Lock()  # each request has one place for its input and one for its output

    def __call__(self, pixels: Tensor) -> Tensor:
        parts = torch.split(pixels, max(1, -(-len(pixels) // len(self.requests))))
        busy = list(zip(self.requests, parts, strict=False))
        with self._lock:
            with ExitStack() as started:  # which waits for every request that was started, also where one fails
                for request, part in busy:
                    request.start_async([part.numpy()])
                    started.callback(request.wait)
            # copied, also where it is one: the next thread's vectors will be written to the same memory
            return torch.cat([torch.from_numpy(request.get_output_tensor().data) for request, _ in busy])


@cache
def _core() -> Any:
    """OpenVINO's plugins, opened once and never closed.

    The plugin for processors gives the thread a stack for signals, and takes its memory away when it is closed, but
    leaves the thread with it: the next signal, such as Ctrl-C, would end the process (seen with OpenVINO 2026.4).
    """
    return require_openvino().Core()


def converted_form(engine: EngineName) -> ConvertedForm:
    """What is rounded in a model that computes in a type: bfloat16 is made of float32 when it is opened."""
    return engine if engine == "int8" or engine == "int8-static" else "float"


def converted_model(model: Any, preparation: PicturePreparation, weights: str, form: ConvertedForm) -> ConvertedModel:
    """A model for OpenVINO, from the cache or converted now.

    Args:
        model: of the ``transformers`` library, in float32.
        preparation: how pictures become its input.
        weights: the sha256 of its weights.
        form: what is rounded.

    Raises:
        MissingExtra: a package of the extra ``openvino`` is not installed.
        OSError: the cache cannot be written.
    """
    openvino = require_openvino()
    home = user_cache("openvino")
    home.mkdir(parents=True, exist_ok=True)
    facts = [weights, str(preparation), form, _CHECKED_SEED, torch.__version__, *openvino_versions()]
    folder = home / hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
    with exclusive_lock(home / ".lock", wait=True):
        found = _read(folder, form)
        if found is None:
            damaged = f"{folder} is damaged. " if folder.exists() else ""
            _log.warning(
                f"{damaged}Converting the picture model for OpenVINO ({form}), once on this machine: some "
                f"seconds. Kept in {home}."
            )
            with whole_folder(folder) as beside:
                openvino.save_model(convert(model, preparation, form), beside / _MODEL, compress_to_fp16=False)
                cosine = _agreement(model, preparation, beside / _MODEL, "fp32" if form == "float" else form)
                found = ConvertedModel(folder / _MODEL, _hash(beside), form, cosine)
                write_whole(beside / _ABOUT, json.dumps({"sha256": found.sha256, "cosine": found.cosine}))
        with suppress(OSError):  # another user's folder: the order in which models are given up matters little
            os.utime(folder)
        _keep_newest(home)
    return found


def _read(folder: Path, form: ConvertedForm) -> ConvertedModel | None:
    """A whole converted model; None where there is none, or its files are not those that were written."""
    try:
        about = read_json_object(folder / _ABOUT)
        found = ConvertedModel(folder / _MODEL, str(about["sha256"]), form, float(about["cosine"]))
        return found if _hash(folder) == found.sha256 else None
    except (NotAnObject, OSError, KeyError, TypeError, ValueError):
        return None


def _hash(folder: Path) -> str:
    """The sha256 of a converted model: of the hashes of its two files."""
    return hashlib.sha256("".join(file_hash(folder / name) for name in (_MODEL, _WEIGHTS)).encode()).hexdigest()


def _keep_newest(home: Path) -> None:
    folders = [folder for folder in home.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    for folder in sorted(folders, key=lambda each: each.stat().st_mtime, reverse=True)[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def convert(model: Any, preparation: PicturePreparation, form: ConvertedForm) -> Any:
    """The picture part of a model as OpenVINO's graph, for any number of pictures."""
    size = preparation.fit.height, preparation.fit.width
    if form == "int8-static":  # its layers are replaced, while other threads may encode with the model
        model = with_own_picture_part(model)
    tower = _PictureTower(model).eval()
    with warnings.catch_warnings(), _quiet_transformers(), torch.inference_mode():
        warnings.simplefilter("ignore")  # of the tracer about shapes
        if form == "int8-static":
            seen = made_pictures(_WATCHED, preparation, _WATCHED_SEED)
            round_inputs(model, tower, preparation.pixels(torch.from_numpy(seen)))
        graph = require_openvino().convert_model(tower, example_input=torch.zeros(2, 3, *size), input=[-1, 3, *size])
    if form != "float":
        _round_weights(graph)
    return graph


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Without what ``transformers`` says of a model's loss while a tracer looks at all of its attributes."""
    logger = logging.getLogger("transformers")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _round_weights(graph: Any) -> None:
    """Round the weights of products to 8 bits, with a scale for each output."""
    from openvino import opset13 as operations

    for node in graph.get_ordered_ops():
        if node.get_type_name() != "MatMul" or node.input_value(1).get_node().get_type_name() != "Constant":
            continue
        weights = node.input_value(1).get_node().data.astype(np.float32)  # (outputs, inputs), or turned around
        inputs = 1 if node.get_attributes()["transpose_b"] else 0
        scales = np.maximum(np.abs(weights).max(inputs, keepdims=True) / 127, np.finfo(np.float32).tiny)
        rounded = operations.convert(operations.constant(np.rint(weights / scales).astype(np.int8)), "f32")
        node.input(1).replace_source_output(operations.multiply(rounded, operations.constant(scales)).output(0))


class _PictureTower(torch.nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        return picture_vectors(self.model, pixels)


@torch.inference_mode()
def _agreement(model: Any, preparation: PicturePreparation, file: Path, engine: EngineName) -> float:
    pixels = preparation.pixels(torch.from_numpy(made_pictures(_CHECKED, preparation, _CHECKED_SEED)))
    expected: Array = picture_vectors(model, pixels).numpy()
    return least_cosine(OpenVinoTower(file, engine)(pixels).numpy(), expected)


def made_pictures(count: int, preparation: PicturePreparation, seed: int) -> NDArray[np.uint8]:
    """Waves of several widths behind discs of several colours, (N, H, W, 3)."""
    rng, (y, x) = np.random.default_rng(seed), np.mgrid[: preparation.fit.height, : preparation.fit.width]
    pictures = []
    for _ in range(count):
        widths = rng.uniform(0.01, 0.4, (3, 2))
        waves = np.stack([np.sin(x * across) * np.cos(y * down) for across, down in widths], -1)
        middle, size = rng.uniform(0.2, 0.8, 2) * x.shape, rng.uniform(0.1, 0.4) * len(x)
        disc = (y - middle[0]) ** 2 + (x - middle[1]) ** 2 < size**2
        pictures.append(np.where(disc[..., None], rng.integers(0, 256, 3), 127 * waves + 128))
    return np.stack(pictures).astype(np.uint8)
