"""Several processes that train one model: each encodes its share of a batch, all compute the whole batch's loss."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from prvr.backbones import Encoded
from prvr.tokens import VideoTokens
from prvr.training.config import ConfigError


@dataclass(frozen=True)
class Processes:
    """This process among those that train together."""

    rank: int  # number of this process, from 0
    world: int  # how many processes there are
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def barrier(self) -> None:
        if self.world > 1:
            dist.barrier()

    def share(self, value: Any) -> Any:
        """Send the first process's value to every process. It must be a JSON value (torch would send a pickle)."""
        if self.world == 1:
            return value
        text = json.dumps(value if self.is_first else None).encode()
        size = torch.tensor([len(text)], device=self.device)
        dist.broadcast(size, src=0)
        body = torch.zeros(int(size), dtype=torch.uint8, device=self.device)
        if self.is_first:
            body.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        dist.broadcast(body, src=0)
        return json.loads(bytes(body.tolist()))


def _number(name: str, default: int) -> int:
    """A variable of the environment that ``torchrun`` sets."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise ConfigError(f"{name} in the environment should be a whole number, as torchrun sets it, not {text!r}")
    return int(text)


@contextmanager
def join_processes(device: str = "auto") -> Iterator[Processes]:
    """Join the processes that ``torchrun`` started; without it, a group of one.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    """
    world, rank = (_number(name, default) for name, default in (("WORLD_SIZE", 1), ("RANK", 0)))
    chosen = choose_device(device)
    if chosen.type == "cuda":
        given = torch.cuda.current_device() if chosen.index is None else chosen.index
        chosen = torch.device("cuda", _number("LOCAL_RANK", 0) if world > 1 else given)
        torch.cuda.set_device(chosen)  # streams and graphs belong to the current device
    if world > 1:
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    group = Processes(rank, world, chosen)
    try:
        yield group
        group.barrier()  # a process that leaves while another still communicates would crash that one
    finally:
        if world > 1:
            dist.destroy_process_group()


def choose_device(name: str = "auto") -> torch.device:
    """A torch device by name; ``auto``: a GPU if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"there is no device {name!r}: use auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"--device {name}: this machine has no CUDA device: use --device cpu")
    return device


def gather_encoded(encoded: Encoded, world: int) -> Encoded:
    """Join what all processes encoded, in rank order, so that negatives come from the whole batch.

    Every process then computes the same loss of the whole batch; the gather's backward pass sums their gradients and
    ``DistributedDataParallel`` averages them, which leaves exactly the gradient of that loss.
    """
    if world == 1:
        return encoded
    counts = _sizes(len(encoded.videos), encoded.labels.device, world)
    offset = sum(counts[: dist.get_rank()])
    videos: VideoTokens = encoded.videos.map(gather_rows)
    return replace(
        encoded,
        queries=gather_rows(encoded.queries),
        labels=gather_rows(torch.where(encoded.labels >= 0, encoded.labels + offset, encoded.labels)),
        videos=videos,
        per_query={name: gather_rows(tensor) for name, tensor in encoded.per_query.items()},
        per_video={name: gather_rows(tensor) for name, tensor in encoded.per_video.items()},
    )


def gather_rows(tensor: Tensor) -> Tensor:
    """Concatenate a tensor's rows over all processes (row counts may differ); gradients flow back to their owner."""
    if not tensor.is_floating_point():
        return _all_rows(tensor.long()).to(tensor.dtype)
    gathered: Tensor = _GatherRows.apply(tensor)  # type: ignore[no-untyped-call]
    return gathered


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        world, rank = dist.get_world_size(), dist.get_rank()
        sizes = _sizes(len(tensor), tensor.device, world)
        ctx.rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
        return _all_rows(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        return total[ctx.rows]


def _all_rows(tensor: Tensor) -> Tensor:
    world = dist.get_world_size()
    sizes = _sizes(len(tensor), tensor.device, world)
    padded = tensor.new_zeros(max(sizes), *tensor.shape[1:])
    padded[: len(tensor)] = tensor
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded.contiguous())
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def _sizes(rows: int, device: torch.device, world: int) -> list[int]:
    counts = [torch.zeros(1, dtype=torch.long, device=device) for _ in range(world)]
    dist.all_gather(counts, torch.tensor([rows], device=device))
    return [int(count) for count in counts]
