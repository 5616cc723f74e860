"""Benchmarks of encoding: pictures to vectors, with a model of real size and random weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from prvr.bench.corpus import BenchmarkSizes
from prvr.bench.int8 import int8_matrix_rate
from prvr.bench.measure import DeviceTimer, MachineLimits, Measurement, matrix_rate
from prvr.bench.models import SIDE, random_model
from prvr.media import int8_installed, picture_engine

_NEVER = 1 << 60
_TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int8: "int8 (ONNX Runtime)"}


def encoding(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """Pictures a second through the engine of image–text encoders, for each type of numbers."""
    model = random_model(device, sizes.layers)
    for precision in picture_engine(model, SIDE, device).types:
        limit = machine.matrix_rate if _TYPES[precision] == machine.matrix_type else matrix_rate(device, precision)
        for compiled in (False, True) if device.type == "cuda" and precision != torch.float32 else (False,):
            yield _pictures(random_model(device, sizes.layers), device, sizes, precision, limit, compiled=compiled)
    if device.type == "cpu" and int8_installed():
        yield _pictures(model, device, sizes, torch.int8, int8_matrix_rate(), compiled=False)


def _pictures(
    model: torch.nn.Module,
    device: torch.device,
    sizes: BenchmarkSizes,
    precision: torch.dtype,
    limit: float,
    *,
    compiled: bool,
) -> Measurement:
    engine = picture_engine(model, SIDE, device, precision=precision, compile_after=0 if compiled else _NEVER)
    count = sizes.pictures or engine.batch
    pictures = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)
    with FlopCounterMode(display=False) as counter:
        counted = torch.float32 if precision == torch.int8 else precision  # torch does not see what others compute
        picture_engine(model, SIDE, device, precision=counted, compile_after=_NEVER).start(pictures[:1])()
    flops = counter.get_total_flops()
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
    return Measurement(
        "encoding",
        f"pictures, ViT-B/16 at 224, {_TYPES[precision]}{', compiled' if compiled else ''}, batches of {count}",
        taken.seconds / batches,
        rate,
        "pictures/s",
        rate * flops / limit,
        taken.memory,
        note=f"{flops / 1e9:.1f} GFLOP a picture; limit: {limit / 1e12:.3g} TFLOP/s",
    )
