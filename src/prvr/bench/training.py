"""Benchmarks of training: a step, and on a GPU an epoch, at Charades-STA's size."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from prvr.bench.baseline import naive
from prvr.bench.corpus import BenchmarkSizes
from prvr.bench.limits import MachineLimits
from prvr.bench.measure import DeviceTimer, Measurement
from prvr.data import Caption, Dataset, FeatureTables, epoch_batches
from prvr.processor import keep_freed_memory
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch
from prvr.training import PhaseSetup, Processes, Step, TraceModel, load_preset, phase_at, validate

_VIDEOS, _QUERIES = 128, 332  # of a batch
_TRAIN_VIDEOS, _TRAIN_QUERIES = 5_338, 12_408
_TEST_VIDEOS, _TEST_QUERIES = 1_334, 3_720
_PHASES = {"backbone": 5, "joint": 135}  # an epoch of each phase, in a run of 160


def training(machine: MachineLimits, device: torch.device, sizes: BenchmarkSizes) -> Iterator[Measurement]:
    """A step of the backbone's phase and one of the joint phase."""
    cuda = device.type == "cuda"
    share = 1 if cuda else sizes.cpu_batch_share
    batch = random_batch(_VIDEOS // share, _QUERIES // share, device)
    shape = f"{_VIDEOS // share} videos, {_QUERIES // share} queries"
    baseline = _naive_step(batch, device)
    if not cuda:
        keep_freed_memory()  # as training does; it cannot be undone, so this part comes last (``run.in_order``)
    for precision in ("bf16",) if cuda else ("fp32", "bf16"):
        for phase in _PHASES:
            model, step = make_step(device, phase, bf16=precision == "bf16", videos=_VIDEOS)
            now = phase_at(_PHASES[phase], 100, model.stage)
            generator = torch.Generator(device).manual_seed(0)
            started = time.perf_counter()
            for _ in range(5 if cuda else 2):  # compilation and capture, or memory taken for the first time
                step(batch, now, generator)
            ready = time.perf_counter() - started
            taken = DeviceTimer(device)(functools.partial(step, batch, now, generator), repeats=20 if cuda else 5)
            compared = baseline if phase == "backbone" else None
            note = f"ready after {ready:.0f} s" if cuda else "memory is not measured: what a step frees is kept"
            work, memory = f"step, {phase} phase, {shape}, {precision}", taken.memory if cuda else None
            yield Measurement("training", work, taken.seconds, memory=memory, baseline=compared, note=note)
            if cuda and phase == "joint":
                yield from _epoch(device, model, step)


def _epoch(device: torch.device, model: TraceModel, step: Step) -> Iterator[Measurement]:
    """All steps of an epoch and a full validation, tables already on the device."""
    train = random_dataset(_TRAIN_VIDEOS, _TRAIN_QUERIES, device, seed=1)
    test = random_dataset(_TEST_VIDEOS, _TEST_QUERIES, device, seed=2)
    now = phase_at(_PHASES["joint"], 100, model.stage)

    def steps() -> None:
        for number, rows in enumerate(epoch_batches(len(train), _VIDEOS, seed=0, epoch=0)):
            step(train.train_batch(rows), now, torch.Generator(device).manual_seed(number))

    def check() -> None:
        validate(model, test, 0.03, 2 * _VIDEOS)  # as the training loop does
        model.enter(now)

    clock = DeviceTimer(device)
    count = len(epoch_batches(len(train), _VIDEOS, seed=0, epoch=0))
    stepped, checked = clock(steps, repeats=3), clock(check, repeats=3)
    yield Measurement("training", f"epoch: {count} steps, joint phase", stepped.seconds, memory=stepped.memory)
    work = f"full validation: encode {_TEST_VIDEOS:,} videos and {_TEST_QUERIES:,} queries, score, rank"
    yield Measurement("training", work, checked.seconds, memory=checked.memory)


def make_step(device: torch.device, phase: str, *, bf16: bool, videos: int) -> tuple[TraceModel, Step]:
    """A model at Charades-STA's size and the step of one phase; on a GPU compiled and captured.

    Args:
        phase: ``backbone`` or ``joint``.
        videos: how many videos a batch that is captured has.
    """
    config = replace(load_preset("charades"), batch_size=videos, compile="on" if device.type == "cuda" else "off")
    torch.manual_seed(0)
    model = TraceModel.from_config(config).to(device)
    model.bf16 = bf16
    now = phase_at(_PHASES[phase], 100, model.stage)
    model.enter(now)
    setup = PhaseSetup(config, model, Processes(0, 1, device))
    return model, setup.step(now, setup.optimiser(now), steps_left=0)


def _naive_step(batch: TrainBatch, device: torch.device) -> float | None:
    reference = naive()
    if reference is None:
        return None
    step = reference.NaiveStep(load_preset("charades").model, device=device, learning_rate=2e-4)
    return DeviceTimer(device)(lambda: step.step(batch, epoch=5), repeats=3).seconds


def random_batch(videos: int, queries: int, device: torch.device) -> TrainBatch:
    """A batch of random features in the shapes of Charades-STA."""
    draw = _RandomTensors(device, 0)
    generator = torch.Generator(device).manual_seed(1)
    lengths = torch.randint(40, 129, (videos, 1), device=device, generator=generator)
    words = torch.randint(5, 15, (queries, 1), device=device, generator=generator)
    mask = torch.arange(128, device=device) < lengths
    spoken = torch.arange(30, device=device) < words
    labels = torch.randint(videos, (queries,), device=device, generator=generator).sort().values
    clips = VideoBatch(draw(videos, 128, 1024) * mask[..., None], mask, draw(videos, 32, 1024))
    return TrainBatch(clips, QueryBatch(draw(queries, 30, 1024), spoken), labels)


def random_dataset(videos: int, queries: int, device: torch.device, seed: int) -> Dataset:
    """A split of random features, its tables on the device."""
    draw, generator = _RandomTensors(device, seed), torch.Generator().manual_seed(seed)
    frames = torch.randint(20, 129, (videos,), generator=generator)
    words = torch.randint(4, 16, (queries,), generator=generator)
    owner = (
        torch.cat([torch.arange(videos), torch.randint(videos, (queries - videos,), generator=generator)]).sort().values
    )
    captions = tuple(Caption(f"v{int(v)}#{n}", f"v{int(v)}", "") for n, v in enumerate(owner))
    return Dataset(
        collection="random",
        split="train",
        video_ids=tuple(f"v{n}" for n in range(videos)),
        captions=captions,
        query_video=owner,
        positives=[(int(v),) for v in owner],
        moments=None,
        tables=FeatureTables(
            frames=draw(int(frames.sum()) + 1, 1024),
            frame_start=frames.cumsum(0) - frames,
            frame_count=frames,
            clips=draw(videos, 32, 1024),
            clip_row=torch.arange(videos),
            words=draw(int(words.sum()) + 1, 1024),
            word_start=words.cumsum(0) - words,
            word_count=words,
        ),
    )


class _RandomTensors:
    def __init__(self, device: torch.device, seed: int):
        self.device, self.generator = device, torch.Generator(device).manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(*shape, device=self.device, generator=self.generator)
