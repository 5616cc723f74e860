"""The limits of this machine: how fast it multiplies matrices, in the fastest library of torch, and reads memory."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from prvr.bench.measure import DeviceTimer

_TALL = (384, 1024)  # depth and columns of a tall product, as scoring has them


@dataclass(frozen=True)
class MachineLimits:
    """The machine that was measured on, and how fast it multiplies matrices and reads memory."""

    device: str
    processor: str
    cores: int
    torch_version: str
    matrix_type: str
    matrix_rate: float  # FLOP/s of a large product in that type
    read_rate: float  # bytes/s

    @staticmethod
    def measure(device: torch.device) -> MachineLimits:
        cuda = device.type == "cuda"
        return MachineLimits(
            device=torch.cuda.get_device_name(device) if cuda else "CPU",
            processor=_processor(),
            cores=torch.get_num_threads(),
            torch_version=torch.__version__,
            matrix_type="bf16" if cuda else "fp32",
            matrix_rate=matrix_rate(device, torch.bfloat16 if cuda else torch.float32),
            read_rate=read_rate(device),
        )


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a large square product, or of a tall one: whichever is faster, in any library."""
    clock = DeviceTimer(device)
    size = 8192 if device.type == "cuda" else 3072
    rates = []
    for rows, depth, columns in ((size, size, size), (size * 8, *_TALL)):
        for product in _products(device, dtype, rows, depth, columns):
            rates.append(2 * rows * depth * columns / clock(product, repeats=7).seconds)
    return max(rates)


def _products(
    device: torch.device, dtype: torch.dtype, rows: int, depth: int, columns: int
) -> Iterator[Callable[[], Tensor]]:
    """A product (rows, depth) × (depth, columns): by ``torch.mm`` and, on a processor, oneDNN; int8 by oneDNN alone."""
    if dtype == torch.int8:
        yield _int8_product(rows, depth, columns)
        return
    a, b = (torch.randn(*shape, device=device).to(dtype) for shape in ((rows, depth), (depth, columns)))
    yield functools.partial(torch.mm, a, b, out=torch.empty(rows, columns, device=device, dtype=dtype))
    if device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        packed = torch.ops.mkldnn._reorder_linear_weight(b.T.contiguous())
        yield functools.partial(torch.ops.mkldnn._linear_pointwise, a, packed, None, "none", [], "")


def _int8_product(rows: int, depth: int, columns: int) -> Callable[[], Tensor]:
    left = torch.randint(0, 128, (rows, depth), dtype=torch.uint8)
    right = torch.ops.onednn.qlinear_prepack(torch.randint(-64, 64, (columns, depth), dtype=torch.int8), [rows, depth])
    scales, zeros = torch.ones(columns), torch.zeros(columns, dtype=torch.int32)
    multiply = functools.partial(torch.ops.onednn.qlinear_pointwise, left, 1.0, 0, right, scales, zeros)
    return functools.partial(multiply, None, 1.0, 0, torch.bfloat16, "none", [], "")


def read_rate(device: torch.device) -> float:
    """Bytes/s at which a large array is read."""
    count = (1 << 30) if device.type == "cuda" else (1 << 28)
    data = torch.ones(count, device=device)
    return 4 * count / DeviceTimer(device)(data.sum, repeats=7).seconds


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
