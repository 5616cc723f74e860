"""Benchmarks of encoding in int8 on a processor, beside the rate of int8 products in the same library."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import torch

from prvr.bench.measure import DeviceTimer, Measurement
from prvr.media import int8_installed, picture_engine, require_onnx, require_onnxruntime

_SHAPES = ((3072, 3072, 3072), (24576, 384, 1024))  # of `matrix_rate`


def int8_pictures(
    model: torch.nn.Module, pictures: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], flops: int
) -> Iterator[Measurement]:
    """Pictures a second in int8 through the engine of image–text encoders; nothing where the extra is missing.

    Args:
        model: an image–text model of the ``transformers`` library, in float32.
        pictures: a batch, (N, H, W, 3).
        flops: of one picture.
    """
    if not int8_installed():
        return
    device = torch.device("cpu")
    limit = int8_matrix_rate()
    engine = picture_engine(model, pictures.shape[1], device, precision=torch.int8)
    taken = DeviceTimer(device)(lambda: engine.start(pictures)(), repeats=3)
    rate = len(pictures) / taken.seconds
    yield Measurement(
        "encoding",
        f"pictures, ViT-B/16 at {pictures.shape[1]}, int8 (ONNX Runtime), batches of {len(pictures)}",
        taken.seconds,
        rate,
        "pictures/s",
        rate * flops / limit,
        taken.memory,
        note=f"{flops / 1e9:.1f} GOP a picture; limit: {limit / 1e12:.3g} TOP/s",
    )


def int8_matrix_rate() -> float:
    """Operations a second of large products of 8-bit matrices in ONNX Runtime: the fastest of two shapes."""
    clock, rates = DeviceTimer(torch.device("cpu")), []
    for rows, depth, columns in _SHAPES:
        left = np.random.default_rng(0).integers(0, 256, (rows, depth), np.uint8)
        session = _product(rows, depth, columns)
        taken = clock(functools.partial(session.run, None, {"left": left}), repeats=5).seconds
        rates.append(2 * rows * depth * columns / taken)
    return max(rates)


def _product(rows: int, depth: int, columns: int):  # type: ignore[no-untyped-def]
    """A session that multiplies (rows, depth) by fixed weights (depth, columns)."""
    onnx, runtime = require_onnx(), require_onnxruntime()
    weights = np.random.default_rng(1).integers(-64, 64, (depth, columns), np.int8)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["left", "right"], ["product"])],
        "product",
        [onnx.helper.make_tensor_value_info("left", onnx.TensorProto.UINT8, (rows, depth))],
        [onnx.helper.make_tensor_value_info("product", onnx.TensorProto.INT32, (rows, columns))],
        [onnx.numpy_helper.from_array(weights, "right")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
