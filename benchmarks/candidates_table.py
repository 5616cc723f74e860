"""Made-up videos in a Lance table, for benchmarks/candidates.py.

Videos have 3 to 8 events each. An event lies near one of 2,000 topics, of which some are far more common than others.
Neighbouring tokens overlap in time and are alike (cosine 0.95 within an event). A query lies near an event of a video,
but so far from it that its own video is often not the best answer. A video is one section, and a row of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from lance.fragment import write_fragments
from numpy.typing import NDArray
from torch import Tensor

from prvr.backbones import FrozenConfig, build
from prvr.scoring import Gallery, score_parts
from prvr.tokens import VideoTokens
from prvr.trace import Trace, with_anchors

FRAGMENT = 250_000  # videos of a fragment at most: fetching takes 0.3 ms for each fragment that rows lie in
BLOCK = 1000  # videos made at once
TOPICS = 2000
CLOSE = 1000  # videos with the best tokens: the exact best ten, TRACE included, are among them
SIDE = ("registers.values", "values.values", "routes.gram", "routes.ceiling", "routes.grounding")
Rows = NDArray[np.int64]  # Lance's row ids: the fragment's number << 32 | the place in it


@dataclass(frozen=True)
class Settings:
    videos: int = 10_000
    tokens: int = 32
    width: int = 256
    stretches: int = 16
    queries: int = 100
    trace: int = 1  # 0: write, read and compute with TRACE's arrays of the first videos again and again: fills faster

    @property
    def chunk(self) -> int:
        """Videos that a process writes at once, as one fragment."""
        return min(FRAGMENT, BLOCK * -(-self.videos // (2 * BLOCK)))


# -- made-up videos -----------------------------------------------------------------------------------------------


@lru_cache
def world(width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Topics (T, D), how common each is (T,), and the scale of noise in each direction (D,): few directions matter."""
    draw = torch.Generator().manual_seed(0)
    scale = (1 + torch.arange(width) / 4) ** -0.7
    scale = (scale / scale.norm())[torch.randperm(width, generator=draw)]
    fields = torch.randn(TOPICS // 20, width, generator=draw)[torch.arange(TOPICS) % (TOPICS // 20)]
    topics = F.normalize((fields + 0.9 * torch.randn(TOPICS, width, generator=draw)) * scale, dim=-1)
    return topics, torch.arange(1, TOPICS + 1) ** -0.5, scale


def videos(s: Settings, block: int) -> tuple[Tensor, Tensor]:
    """A block of videos: tokens (V, M, D) at unit length, and the event of each token (V, M, D)."""
    draw = torch.Generator().manual_seed(block + 1)
    topics, common, scale = world(s.width)
    count = min(BLOCK, s.videos - block * BLOCK)
    chosen = torch.multinomial(common, count * 8, replacement=True, generator=draw)
    events = topics[chosen] + 0.8 * scale * torch.randn(count * 8, s.width, generator=draw)
    events = F.normalize(events, dim=-1).view(count, 8, s.width)
    cuts = torch.rand(count, 7, generator=draw)
    cuts[torch.arange(7) >= torch.randint(2, 8, (count, 1), generator=draw)] = 2  # so many cuts are in the video
    moment = (torch.arange(s.tokens) + 0.5) / s.tokens
    which = (moment[None, :, None] > cuts[:, None]).sum(-1)  # (V, M)
    frames = scale * torch.randn(count, s.tokens + 1, s.width, generator=draw)
    of_token = events.gather(1, which[..., None].expand(-1, -1, s.width))
    return F.normalize(of_token + 0.25 * (frames[:, 1:] + frames[:, :-1]), dim=-1), of_token


def queries(s: Settings) -> Tensor:
    """(Q, D), each near an event of one of the first videos."""
    draw = torch.Generator().manual_seed(0)
    near = videos(s, 0)[1][torch.arange(s.queries), torch.randint(s.tokens, (s.queries,), generator=draw)]
    return F.normalize(near + 1.4 * world(s.width)[2] * torch.randn(near.shape, generator=draw), dim=-1)


def merge_neighbours(tokens: Tensor, count: int) -> Tensor:
    """Join the most similar neighbours until ``count`` stretches are left: (V, M, D) → (V, count, D), unit vectors.

    Long stretches join later than short ones, so that a stretch stays close to each of its tokens.
    """
    number, length, _ = tokens.shape
    video = np.arange(number)
    sums = np.pad(
        tokens.numpy(), ((0, 0), (0, 1), (0, 0)), constant_values=1
    )  # slot M has no neighbours: its size is ∞
    sizes = np.pad(np.ones((number, length)), ((0, 0), (0, 1)), constant_values=np.inf)
    after = np.tile((np.arange(length + 1) + 1).clip(max=length), (number, 1))
    before = np.tile((np.arange(length + 1) - 1) % (length + 1), (number, 1))

    def likeness(left: Rows, right: Rows) -> NDArray[np.float64]:
        a, b = sums[video, left], sums[video, right]
        products = (np.einsum("vd,vd->v", *pair) for pair in ((a, b), (a, a), (b, b)))
        cosine: NDArray[np.float64] = next(products) / np.sqrt(next(products) * next(products))
        return cosine - 0.02 * (sizes[video, left] + sizes[video, right])

    alike = np.stack([likeness(np.full(number, n), after[:, n]) for n in range(length + 1)], 1)
    for _ in range(length - count):
        left = alike.argmax(1)
        right = after[video, left]
        sums[video, left] += sums[video, right]
        sizes[video, left] += sizes[video, right]
        sizes[video, right], alike[video, right] = 0, -np.inf
        after[video, left] = after[video, right]
        before[video, after[video, left]] = left
        alike[video, left] = likeness(left, after[video, left])
        alike[video, before[video, left]] = likeness(before[video, left], left)
    kept = sums[:, :-1][sizes[:, :-1] > 0].reshape(number, count, -1)
    return F.normalize(torch.from_numpy(kept), dim=-1)


# -- a Lance table of them ----------------------------------------------------------------------------------------


def fill(s: Settings, folder: Path) -> None:
    """Write the table with two processes, and beside it the best ten of an exact search for each query."""
    place, asked, chunks = folder / "sections.lance", queries(s), range(-(-s.videos // s.chunk))
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        parts = list(workers.map(partial(write_chunk, s, place, asked), chunks))
    fragments = [one for part in parts for one in part.fragments]
    table = lance.LanceDataset.commit(place, lance.LanceOperation.Overwrite(parts[0].schema, fragments))
    assert [one.fragment_id for one in table.get_fragments()] == list(chunks)
    close = np.concatenate([part.close for part in parts], 1)  # (Q, chunks · CLOSE)
    order = np.argsort(-np.concatenate([part.base for part in parts], 1), 1)[:, :CLOSE]
    best = []
    for query, rows in zip(asked, np.take_along_axis(close, order, 1), strict=True):
        best.append(rows[np.argsort(-fused(query, fetch(table, rows), s))[:10]])
    np.savez(folder / "exact.npz", queries=asked.numpy(), best=np.stack(best))
    (folder / "settings.json").write_text(json.dumps(asdict(s)), "utf-8")


@dataclass(frozen=True)
class Part:
    """What a process wrote."""

    schema: pa.Schema
    fragments: list[Any]
    close: Rows  # (Q, n) the videos with the best tokens, and
    base: NDArray[np.float32]  # (Q, n) their cosine


def write_chunk(s: Settings, place: Path, asked: Tensor, chunk: int) -> Part:
    torch.set_num_threads(1)
    base: list[Tensor] = []
    first_side = trace_arrays(videos(s, 0)[0])

    def batches() -> Iterator[pa.RecordBatch]:
        first = chunk * s.chunk // BLOCK
        for block in range(first, min(first + s.chunk // BLOCK, -(-s.videos // BLOCK))):
            tokens = videos(s, block)[0]
            base.append((asked @ tokens.half().float().flatten(0, 1).T).view(len(asked), *tokens.shape[:2]).amax(-1))
            side = trace_arrays(tokens) if s.trace else first_side[: len(tokens)]
            columns = {
                "tokens": multivectors(tokens.half().numpy()),
                "side": binary(side),
                "stretches": multivectors(merge_neighbours(tokens, s.stretches).numpy()),
            }
            yield pa.record_batch(list(columns.values()), names=list(columns))

    made = batches()
    head = next(made)
    reader = pa.RecordBatchReader.from_batches(head.schema, chain([head], made))
    fragments = write_fragments(reader, place, mode="overwrite")
    scores, rows = torch.cat(base, 1).topk(min(CLOSE, sum(one.shape[1] for one in base)))
    return Part(head.schema, fragments, rows.numpy() | chunk << 32, scores.numpy())


@lru_cache
def model(width: int) -> tuple[Any, Trace]:
    return build("frozen", FrozenConfig(visual_width=width, query_width=width)), Trace(width).requires_grad_(False)


def prepare(tokens: Tensor) -> Gallery:
    """Everything that TRACE needs of videos, as a library stores it."""
    backbone, trace = model(tokens.shape[2])
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
    video = VideoTokens(tokens, mask, tokens.new_zeros(len(tokens), 0, tokens.shape[2]))
    return Gallery.of_tokens(backbone, trace, with_anchors(video, "hybrid"), storage="fp16", page=tokens.shape[1])


def trace_arrays(tokens: Tensor) -> NDArray[np.uint8]:
    """What TRACE reads of each video besides its tokens, (V, bytes)."""
    arrays = prepare(tokens).arrays()
    return np.concatenate([arrays[name].numpy().reshape(len(tokens), -1).view(np.uint8) for name in SIDE], 1)


def multivectors(arrays: NDArray[Any]) -> pa.Array:
    """(V, n, D) as ``list<fixed_size_list<…>>``."""
    number, length, width = arrays.shape
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(arrays).reshape(-1)), width)
    return pa.ListArray.from_arrays(pa.array(np.arange(number + 1, dtype=np.int32) * length), vectors)


def binary(rows: NDArray[np.uint8]) -> pa.Array:
    """(V, bytes) as ``binary``: one column is read faster than five."""
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    return pa.Array.from_buffers(
        pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    )


def fetch(table: lance.LanceDataset, rows: Rows) -> pa.Table:
    return table._take_rows(rows.tolist(), columns=["tokens", "side"])


def fused(query: Tensor, fetched: pa.Table, s: Settings) -> NDArray[np.float32]:
    """The exact score of a query (D,) on fetched videos (V,)."""
    found = fetched.combine_chunks()
    raw = np.frombuffer(found["side"].chunk(0).buffers()[2], np.uint8).reshape(len(found), -1)
    tokens = found["tokens"].chunk(0).flatten().flatten().to_numpy().copy().reshape(len(found), s.tokens, s.width)
    arrays = {"pages": torch.ones(len(found), dtype=torch.int32), "local.values": torch.from_numpy(tokens)}
    about, layout = layout_of(s.tokens, s.width)
    start = 0
    for name, (dtype, shape) in layout.items():
        end = start + np.dtype(dtype).itemsize * int(np.prod(shape))
        arrays[name] = torch.from_numpy(np.ascontiguousarray(raw[:, start:end]).view(dtype).reshape(-1, *shape))
        start = end
    scores = score_parts(query[None], Gallery.of_arrays(about, arrays), "torch")
    assert scores.trace is not None
    weight = about["trace"]["fusion_weight"] if s.trace else 0
    return (scores.base + weight * scores.trace)[0].float().numpy()


@lru_cache
def layout_of(tokens: int, width: int) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...]]]]:
    """A gallery's description, and type and shape of the arrays in ``side``."""
    gallery = prepare(F.normalize(torch.ones(1, tokens, width), dim=-1))
    arrays = {name: array.numpy() for name, array in gallery.arrays().items()}
    return gallery.about, {name: (arrays[name].dtype.str, arrays[name].shape[1:]) for name in SIDE}
