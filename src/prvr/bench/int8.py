"""How fast a processor multiplies matrices of 8-bit numbers, in the library that encodes pictures in int8."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from prvr.bench.measure import DeviceTimer
from prvr.media import require_onnx, require_onnxruntime

_SHAPES = ((3072, 3072, 3072), (24576, 384, 1024))  # of `matrix_rate`


def int8_matrix_rate() -> float:
    """Operations a second of large products of 8-bit matrices in ONNX Runtime: the fastest of two shapes."""
    clock, rates = DeviceTimer(torch.device("cpu")), []
    for rows, depth, columns in _SHAPES:
        left = np.random.default_rng(0).integers(0, 256, (rows, depth), np.uint8)
        session = _product(rows, depth, columns)
        taken = clock(functools.partial(session.run, None, {"left": left}), repeats=5).seconds
        rates.append(2 * rows * depth * columns / taken)
    return max(rates)


def _product(rows: int, depth: int, columns: int) -> Any:
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
