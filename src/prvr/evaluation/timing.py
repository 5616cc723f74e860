"""How long the parts of an evaluation take, with the engine that searches use."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from prvr.evaluation.subject import Subject
from prvr.scoring import Gallery, ranks, score_parts
from prvr.tokens import VideoTokens


@dataclass
class TimeLog:
    """Seconds by what they were spent on."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        """Add the time that the block takes."""
        _wait_for_gpu()
        started = time.perf_counter()
        yield
        _wait_for_gpu()
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started


def _wait_for_gpu() -> None:
    """Kernels are queued: without waiting, a clock would read the time of queueing them."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@torch.no_grad()
def time_retrieval(
    subject: Subject, times: TimeLog, queries: Tensor, videos: VideoTokens, pair_scores: Tensor | None
) -> None:
    """Measure similarity by the base alone and with TRACE, and ranking. Encoding was measured before.

    ``pair_scores`` are those of a method that scores each pair by itself; it was timed when they were made.
    """
    backbone, scores = subject.model.backbone, pair_scores
    for name, trace in {"base similarity": None, "TRACE similarity": subject.model.trace}.items():
        if not backbone.separable or (trace is not None and not subject.with_trace):
            continue
        gallery = Gallery.of_tokens(backbone, trace, videos)
        with times.measure(name):
            scores = score_parts(queries, gallery).base
        del gallery  # before the next one is made: each is a copy of all tokens
    assert scores is not None
    with times.measure("ranking"):
        ranks(scores, subject.dataset.query_video.to(scores.device))


def processor_name(device: torch.device) -> str:
    """The processor that computes, in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        names = [line.partition(":")[2].strip() for line in listed.read_text().splitlines() if "model name" in line]
        name = names[0] if names else name
    threads = torch.get_num_threads()
    return f"{threads} thread{'' if threads == 1 else 's'} of {os.cpu_count()} cores ({name})"
