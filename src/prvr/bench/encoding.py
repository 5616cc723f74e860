"""Benchmarks of encoding: pictures to vectors, with a model of real size and random weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from prvr.bench.corpus import BenchmarkSizes
from prvr.bench.limits import MachineLimits, matrix_rate
from prvr.bench.measure import DeviceTimer, Measurement
from prvr.bench.models import SIDE, random_model
from prvr.media import EngineName, openvino_installed, picture_engine

_NEVER = 1 << 60
_TYPES = {
    "torch": torch.float32,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "int8": torch.int8,
    "int8-static": torch.int8,
}


def encoding(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """Pictures a second through the engine of image–text encoders, for each type of numbers."""
    limits = {_TYPES[machine.matrix_type]: machine.matrix_rate}
    for engine in picture_engine(random_model(device, sizes.layers), SIDE, device).engines:
        precision = _TYPES[engine]
        if precision not in limits:
            limits[precision] = matrix_rate(device, precision)
        for compiled in (False, True) if device.type == "cuda" and precision != torch.float32 else (False,):
            model = random_model(device, sizes.layers)
            yield _pictures(model, device, sizes, engine, limits[precision], compiled=compiled)


def _pictures(
    model: torch.nn.Module,
    device: torch.device,
    sizes: BenchmarkSizes,
    engine_name: EngineName,
    limit: float,
    *,
    compiled: bool,
) -> Measurement:
    count = sizes.pictures or picture_engine(model, SIDE, device, engine="torch").batch
    pictures = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)
    with FlopCounterMode(display=False) as counter:  # by torch, which counts only what it computes itself
        picture_engine(model, SIDE, device, engine="torch", compile_after=_NEVER).start(pictures[:1])()
    flops = counter.get_total_flops()
    engine = picture_engine(model, SIDE, device, engine=engine_name, compile_after=0 if compiled else _NEVER)
    batches = 32 if device.type == "cuda" else 1

    def work() -> None:
        flying = deque[Callable[[], object]]()
        for _ in range(batches):  # two in flight, as when videos are encoded
            flying.append(engine.start(pictures))
            if len(flying) == 2:
                flying.popleft()()
        flying.popleft()()

    taken = DeviceTimer(device)(work, repeats=5 if device.type == "cuda" else 3)
    rate = batches * count / taken.seconds
    how = f"{_label(engine_name, device)}{', compiled' if compiled else ''}"
    return Measurement(
        "encoding",
        f"pictures, ViT-B/16 at 224, {how}, batches of {count}",
        taken.seconds / batches,
        rate,
        "pictures/s",
        rate * flops / limit,
        taken.memory,
        note=f"{flops / 1e9:.1f} GFLOP a picture; limit: {limit / 1e12:.3g} TFLOP/s",
    )


def _label(engine: EngineName, device: torch.device) -> str:
    if device.type == "cpu" and engine != "torch" and openvino_installed():
        return f"{engine} by OpenVINO"
    return "fp32 by torch" if engine == "torch" else f"{engine} by torch"
