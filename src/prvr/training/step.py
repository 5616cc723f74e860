"""One optimisation step: plain, or captured once as a CUDA graph and replayed.

A step launches thousands of small kernels, and issuing them can take a host longer than a fast GPU takes to run them.
``GraphedStep`` captures forward, backward and update into a CUDA graph per batch shape and replays it with
a single call. Batches are padded to a few shapes: unused frame slots are masked, unused queries carry the label −1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones import BackboneConfig
from prvr.tokens import QueryBatch, TrainBatch
from prvr.training.schedule import PhaseEpoch

_QUERY_STEP = 128  # query counts are padded up to multiples of this; each shape's graph holds a step's activations
_WARM_UP = 3  # ordinary steps before a capture, as CUDA graphs ask for


LossTerms: TypeAlias = Callable[[TrainBatch, PhaseEpoch, torch.Generator], dict[str, Tensor]]


class Step(Protocol):
    """Takes a batch, updates the model and returns the loss terms."""

    def __call__(self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator) -> dict[str, Tensor]: ...


class PlainStep:
    """Forward, backward, clip, update.

    Args:
        model: whose parameters are updated.
        optimiser: updates them.
        clip: bound on the global gradient norm; None: no bound.
        loss_terms: computes the model's loss terms; by default the model itself. A ``CompiledModel`` gives the same
            terms faster.
        tf32: multiply float32 matrices in TF32, for a model whose other parts run in bf16 on a GPU.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        clip: float | None,
        loss_terms: LossTerms | None = None,
        tf32: bool = False,
    ):
        self.model, self.optimiser, self.clip, self.tf32 = model, optimiser, clip, tf32
        self.loss_terms: LossTerms = model if loss_terms is None else loss_terms

    def __call__(self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator) -> dict[str, Tensor]:
        self.optimiser.zero_grad(set_to_none=True)
        with _tf32_products() if self.tf32 else nullcontext():
            terms = self.loss_terms(batch, now, generator)
            torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        if self.clip is not None:
            nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.grad is not None], self.clip)
        self.optimiser.step()
        return {name: value.detach() for name, value in terms.items()}


@contextmanager
def _tf32_products() -> Iterator[None]:
    """Round the factors of float32 products to 10 bits, which bf16 rounds to 7.

    The parts of a model that stay in float32 (DreamPRVR's chain of registers, the losses) read what parts in bf16 made,
    which is rounded more coarsely, so this adds little. Outside of steps, validation included, products are exact.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Captured(NamedTuple):
    """A step as a CUDA graph, with the memory it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    batch: TrainBatch  # where the graph reads
    generator: torch.Generator  # the graph's own, reseeded before each replay
    terms: dict[str, Tensor]  # where it writes


class GraphedStep:
    """Captures a step per batch shape and replays it.

    Args:
        plain: runs batches with chosen negatives, which are not captured, and is captured for batches of another size.
        videos: how many videos all batches have, but for the last of an epoch.
        config: the backbone's; its slots are the fixed shape.
        repeated: the step that is captured; by default ``plain``. It updates the same model with the same optimiser.
    """

    def __init__(self, plain: PlainStep, videos: int, config: BackboneConfig, repeated: PlainStep | None = None):
        self.plain, self.videos, self.config = plain, videos, config
        self.repeated = plain if repeated is None else repeated
        self.captured: dict[tuple[int, ...], Captured] = {}
        self.warm_ups: dict[tuple[int, ...], int] = {}
        self.regime: tuple[int, ...] = ()
        self.pool = torch.cuda.graph_pool_handle()  # graphs run one after the other, so they share their memory
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __call__(self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator) -> dict[str, Tensor]:
        if batch.negatives is not None:
            return self.plain(batch, now, generator)
        batch = pad_batch(batch, self.config.frames, self.config.words)
        # Besides shapes, a graph freezes what the epoch decides, such as whether triplets meet hard negatives.
        captions = () if batch.videos.captions is None else batch.videos.captions.shape[1:3]
        regime = self.config.regime_at(now.epoch)
        if regime != self.regime:  # graphs of an earlier regime are never needed again
            self.captured.clear()
            self.regime, self.pool = regime, torch.cuda.graph_pool_handle()
        key = (len(batch.videos), *batch.queries.tokens.shape[:2], *captions, *regime)
        if key not in self.captured:
            self.warm_ups[key] = self.warm_ups.get(key, 0) + 1
            if self.warm_ups[key] <= _WARM_UP:
                return self._warm_up(batch, now, generator)
            self.captured[key] = self._capture(batch, now)
        step = self.captured[key]
        _copy(batch, step.batch)
        step.generator.manual_seed(generator.initial_seed())
        step.graph.replay()
        return {name: value.clone() for name, value in step.terms.items()}

    def _step_for(self, batch: TrainBatch) -> PlainStep:
        return self.repeated if len(batch.videos) == self.videos else self.plain

    def _warm_up(self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator) -> dict[str, Tensor]:
        """A plain step on a side stream, where allocations settle as they will during capture."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            terms = self._step_for(batch)(batch, now, generator)
        torch.cuda.current_stream().wait_stream(self.stream)
        return terms

    def _capture(self, batch: TrainBatch, now: PhaseEpoch) -> Captured:
        graph = torch.cuda.CUDAGraph()
        generator = torch.Generator(batch.labels.device)
        graph.register_generator_state(generator)
        kept = batch.to(batch.labels.device, copy=True)
        self.repeated.optimiser.zero_grad(set_to_none=True)
        # Another thread may be fetching a batch meanwhile.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            terms = self._step_for(kept)(kept, now, generator)
        return Captured(graph, kept, generator, terms)


def pad_batch(batch: TrainBatch, frames: int, words: int) -> TrainBatch:
    """The same batch in one of a few shapes: all frame slots, all word slots, a multiple of 128 queries."""
    videos, queries = batch.videos, batch.queries
    spare = frames - videos.frames.shape[1]
    rows, longer = -len(queries) % _QUERY_STEP, words - queries.mask.shape[1]
    return TrainBatch(
        replace(
            videos,
            frames=F.pad(videos.frames, (0, 0, 0, spare)),
            frame_mask=F.pad(videos.frame_mask, (0, spare)),
            ids=(),
        ),
        QueryBatch(
            F.pad(queries.tokens, (0, 0, 0, longer, 0, rows)),
            F.pad(queries.mask, (0, longer, 0, rows)),
        ),
        F.pad(batch.labels, (0, rows), value=-1),
    )


def _copy(source: TrainBatch, target: TrainBatch) -> None:
    for part, place in ((source.videos, target.videos), (source.queries, target.queries)):
        for name, tensor in part.tensors().items():
            place.tensors()[name].copy_(tensor)
    target.labels.copy_(source.labels)
