"""How cost grows: with the gallery, with the registers, with the length of videos."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch

from prvr.bench.corpus import random_gallery, random_queries
from prvr.bench.measure import Clock, Machine, Row, memory_available
from prvr.scoring import Storage, score_parts, top_k

_SHARE_OF_MEMORY = 0.4


def growth(machine: Machine, device: torch.device) -> Iterator[Row]:
    cuda = device.type == "cuda"
    storage: Storage = "bf16" if cuda else "fp32"
    queries = random_queries(1024 if cuda else 64, device)
    room = torch.cuda.mem_get_info(device)[0] if cuda else memory_available()
    per_video = (2 * 128 + 44) * 384 * (2 if cuda else 1)
    for videos in (1_000, 10_000, 100_000):
        kept: Storage = "bf16" if cuda else "int8"
        if videos * per_video > _SHARE_OF_MEMORY * room:
            needed = videos * per_video / _SHARE_OF_MEMORY / 1e9
            yield Row("growth", f"one query, {videos:,} videos: skipped, needs {needed:.0f} GB of memory", 0.0)
            break
        gallery, query = random_gallery(videos, 6, device, kept), random_queries(1, device)
        taken = Clock(device)(functools.partial(top_k, query, gallery, k=100))
        rate = gallery.bytes / taken.seconds
        work = f"one query, {videos:,} videos of up to 128 frames, {kept}"
        yield Row("growth", work, taken.seconds, rate, "B/s", rate / machine.read_rate, taken.memory)
        del gallery
    for registers in (1, 2, 4, 8, 16):
        gallery = random_gallery(1_000, registers, device, storage)
        taken = Clock(device)(functools.partial(score_parts, queries, gallery))
        yield Row(
            "growth",
            f"{len(queries):,} queries × 1,000 videos, {registers} registers",
            taken.seconds,
            memory=taken.memory,
        )
        del gallery
    for frames in (32, 128, 512, 2048, 4096):
        videos = 32_000 // frames * 4
        gallery = random_gallery(videos, 6, device, storage, frames=frames)
        taken = Clock(device)(functools.partial(score_parts, queries, gallery))
        slots = gallery.local.shape[0] * gallery.page
        yield Row(
            "growth",
            f"{len(queries):,} queries × {videos:,} videos of up to {frames:,} frames",
            taken.seconds,
            len(queries) * slots / taken.seconds,
            "query·slots/s",
            memory=taken.memory,
        )
        del gallery
