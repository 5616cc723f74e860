"""Random corpora in the shapes of the public test splits. Their content does not change how long scoring takes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prvr.backbones import TokenSet
from prvr.scoring import Gallery, Storage
from prvr.tokens import TensorRecord, VideoTokens
from prvr.trace import Trace, TraceConfig

WIDTH, FRAMES, CLIPS = 384, 128, 32


@dataclass(frozen=True)
class Shape:
    """A test split: how many queries, videos and registers."""

    name: str
    queries: int
    videos: int
    registers: int

    def columns(self) -> int:
        """Products of a query with a video: local tokens, keys, clips, registers and their values."""
        return 2 * FRAMES + CLIPS + 2 * self.registers


CHARADES = Shape("Charades-STA", 3720, 1334, 6)
TVR = Shape("TVR", 10895, 2179, 8)
ACTIVITYNET = Shape("ActivityNet", 17031, 4917, 4)  # the larger of two splits in use; MS-SL's has 15,753 and 4,430


@dataclass(frozen=True)
class BenchmarkSizes:
    """How much work each benchmark measures. Defaults are the sizes that results are reported for."""

    splits: tuple[Shape, ...] = (CHARADES, TVR, ACTIVITYNET)  # a CPU measures the first only
    single_videos: int = 10_000  # gallery of a single query
    storage_videos: int = 2_000  # gallery on which storage types are compared with fp32
    baseline_queries: int = 200  # on a CPU, where the naive form would take minutes for all queries
    cpu_batch_share: int = 8  # a CPU trains on this fraction of a GPU's batch
    pictures: int = 0  # encoded at once; 0: as many as the encoder takes
    layers: int = 12  # of the model that encodes them
    folder: Path | None = None  # with videos to add to a library, instead of drawn films
    films: int = 12  # that are drawn
    film_seconds: float = 30.0
    film_size: tuple[int, int] = (640, 360)
    add_seconds: float | None = None  # that adding should take: films are repeated or left out; None: 20, with a GPU 30
    memory_share: float = 0.4  # of the free memory that a growing gallery may take


class _PlainTokens:
    """Takes the place of a backbone: tokens are used as they are."""

    method = "random tokens"
    unit_tokens = True
    separable = True

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        return TokenSet(0.6, videos.clips), TokenSet(0.4, videos.frames)


def random_tokens(
    videos: int, registers: int, device: torch.device, frames: int = FRAMES, seed: int = 0, ragged: bool = True
) -> VideoTokens:
    """Tokens of random videos, each around its own topic; ``ragged`` videos differ in length."""
    generator = torch.Generator(device).manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device, generator=generator)

    shortest = max(1, frames // 6) if ragged else frames
    lengths = torch.randint(shortest, frames + 1, (videos, 1), device=device, generator=generator)
    mask = torch.arange(frames, device=device) < lengths
    topic = draw(videos, 1, WIDTH)
    anchors = topic + draw(videos, registers, WIDTH)
    return VideoTokens(
        (topic + draw(videos, frames, WIDTH)) * mask[..., None], mask, topic + draw(videos, CLIPS, WIDTH), anchors
    )


def random_trace(device: torch.device, config: TraceConfig | None = None) -> Trace:
    """A TRACE whose projections differ a little from the identity."""
    torch.manual_seed(0)
    trace = Trace(WIDTH, config or TraceConfig())
    for weight in trace.projections.values():
        weight.data += 0.2 * torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    return trace.to(device)


def random_queries(count: int, device: torch.device) -> Tensor:
    """Query vectors, (count, D)."""
    return torch.randn(count, WIDTH, device=device, generator=torch.Generator(device).manual_seed(9))


@torch.no_grad()
def random_gallery(
    videos: int, registers: int, device: torch.device, storage: Storage, *, frames: int = FRAMES, distinct: int = 1024
) -> Gallery:
    """A gallery of random videos. Beyond ``distinct`` of them they repeat; engines take as long either way."""
    trace, backbone = random_trace(device), _PlainTokens()
    parts: list[Gallery] = []
    step = max(1, min(256, (1 << 15) // frames))
    for start in range(0, min(videos, distinct), step):
        tokens = random_tokens(min(step, min(videos, distinct) - start), registers, device, frames, seed=start)
        page = parts[0].page if parts else None
        parts.append(Gallery.of_tokens(backbone, trace, tokens, storage=storage, page=page))  # type: ignore[arg-type]
    return repeat_videos(Gallery.cat(parts), videos)


def repeat_videos(gallery: Gallery, videos: int) -> Gallery:
    """A gallery of ``videos`` videos that repeats those of another."""
    times, rest = divmod(videos, len(gallery))
    if times == 1 and rest == 0:
        return gallery
    tail = gallery[:rest]
    changed: dict[str, Any] = {}
    for field in fields(gallery):
        whole, part = getattr(gallery, field.name), getattr(tail, field.name)
        if isinstance(whole, TensorRecord):
            tensors = {name: _repeat(t, part.tensors()[name], times) for name, t in whole.tensors().items()}
            changed[field.name] = replace(whole, **tensors)
    pages = _repeat(gallery.first_page.diff(), tail.first_page.diff(), times)
    return replace(gallery, first_page=torch.cat([pages.new_zeros(1), pages.cumsum(0)]), **changed)


def _repeat(whole: Tensor, rest: Tensor, times: int) -> Tensor:
    out = whole.new_empty((times * len(whole) + len(rest), *whole.shape[1:]))
    for turn in range(times):
        out[turn * len(whole) : (turn + 1) * len(whole)] = whole
    out[times * len(whole) :] = rest
    return out
