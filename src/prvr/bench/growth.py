"""How the cost of scoring grows with the gallery, the registers and the length of videos."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from prvr.bench.corpus import BenchmarkSizes, random_gallery, random_queries
from prvr.bench.limits import MachineLimits
from prvr.bench.measure import DeviceTimer, Measurement
from prvr.processes import available_memory
from prvr.scoring import Storage, score_parts, top_k


def growth(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """Larger and larger galleries, more registers, longer videos."""
    cuda = device.type == "cuda"
    storage: Storage = "bf16" if cuda else "fp32"
    queries = random_queries(1024 if cuda else 64, device)
    room = torch.cuda.mem_get_info(device)[0] if cuda else available_memory()
    per_video = (2 * 128 + 44) * 384 * (2 if cuda else 1)
    for videos in (1_000, 10_000, 100_000):
        kept: Storage = "bf16" if cuda else "int8"
        if videos * per_video > sizes.memory_share * room:
            needed = videos * per_video / sizes.memory_share / 1e9
            yield Measurement("growth", f"one query, {videos:,} videos: skipped, needs {needed:.0f} GB of memory", 0.0)
            break
        gallery, query = random_gallery(videos, 6, device, kept), random_queries(1, device)
        taken = DeviceTimer(device)(functools.partial(top_k, query, gallery, k=100))
        rate = gallery.bytes / taken.seconds
        work = f"one query, {videos:,} videos of up to 128 frames, {kept}"
        yield Measurement("growth", work, taken.seconds, rate, "B/s", rate / machine.read_rate, taken.memory)
        del gallery
    for registers in (1, 2, 4, 8, 16):
        gallery = random_gallery(1_000, registers, device, storage)
        taken = DeviceTimer(device)(functools.partial(score_parts, queries, gallery))
        yield Measurement(
            "growth",
            f"{len(queries):,} queries × 1,000 videos, {registers} registers",
            taken.seconds,
            memory=taken.memory,
        )
        del gallery
    for frames in (32, 128, 512, 2048, 4096):
        videos = 32_000 // frames * 4
        gallery = random_gallery(videos, 6, device, storage, frames=frames)
        taken = DeviceTimer(device)(functools.partial(score_parts, queries, gallery))
        slots = gallery.local.shape[0] * gallery.page
        yield Measurement(
            "growth",
            f"{len(queries):,} queries × {videos:,} videos of up to {frames:,} frames",
            taken.seconds,
            len(queries) * slots / taken.seconds,
            "query·slots/s",
            memory=taken.memory,
        )
        del gallery
