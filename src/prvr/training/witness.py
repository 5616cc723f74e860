"""Train a witness on a finished base: it learns from the base's own near misses, and from video-level labels alone.

    material = {split: witness_material(model, load_split(config, data, split)) for split in ("train", "val", "test")}
    witness = train_witness(material["train"], WitnessStage(), seed=0)
    weight = fit_weight(material["val"], witness_scores(witness, material["val"]))  # prvr.training.witness_fusion
    final = rescored(material["test"], witness_scores(witness, material["test"]), weight)

The base is frozen. Its score is never changed outside of each query's best ``candidates``: R@100 is the base's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import Backbone
from prvr.data import Dataset, show_progress
from prvr.errors import Interrupted
from prvr.processor import KeptMemory
from prvr.scoring import encode_query_batches, encode_video_batches, evaluation_mode, join_videos
from prvr.tokens import QueryBatch
from prvr.trace import Witness, WordEvidence, hub_offset, uniform_score
from prvr.training.config import WitnessStage
from prvr.training.model import TraceModel

CANDIDATES = 50  # best videos of a query that are read again; a hundred gain little and cost twice as much
HUB_COUNT = 10  # best queries of the bank, of whose scores a video's hub offset is the mean
_BANK = 8192  # training queries that say how well a video fits everybody
_PAIRS = 2048  # query–video pairs that are compared together when scoring
_VIDEOS = 256  # videos that are read together when scoring


@dataclass(frozen=True)
class WitnessMaterial:
    """What a witness reads of a split, and the base's ranking of it."""

    words: Tensor  # (Q, L, Dw)
    word_mask: Tensor  # (Q, L)
    pooled: Tensor  # (Q, Dw) the mean of the words; where the base's words are read, its pooled query in their place
    frames: Tensor  # (V, M, Df)
    frame_mask: Tensor  # (V, M)
    base: Tensor  # (Q, V)
    candidates: Tensor  # (Q, K) the base's best videos, best first
    truth: Tensor  # (Q,) labelled video
    positive: Tensor  # (Q, V) bool: labelled, or described by the same sentence or one that is alike
    hubs: Tensor  # (V,) h
    shared: int = 0  # leading dimensions of words and frames that are one space already

    @property
    def device(self) -> torch.device:
        return self.words.device

    def without_hubs(self, weight: float) -> WitnessMaterial:
        """The same split ranked by ``S_base − μ·h``, over all videos."""
        base = self.base - weight * self.hubs
        return replace(self, base=base).with_candidates(self.candidates.shape[1])

    def with_candidates(self, count: int) -> WitnessMaterial:
        """The same split, of which so many best videos of each query are read."""
        return replace(self, candidates=self.base.topk(min(count, self.base.shape[1]), dim=1).indices)

    def with_one_word(self) -> WitnessMaterial:
        """The same ranking, read with the pooled query in place of its words."""
        return self.with_words(self.pooled[:, None], self.word_mask[:, :1])

    def with_words(self, words: Tensor, mask: Tensor) -> WitnessMaterial:
        """The same ranking, read with other words."""
        return replace(self, words=words, word_mask=mask)


@torch.no_grad()
def witness_material(
    model: TraceModel,
    dataset: Dataset,
    bank: Tensor | None = None,
    *,
    candidates: int = CANDIDATES,
    inputs: str = "raw",
    hub_count: int = HUB_COUNT,
    alike: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> WitnessMaterial:
    """Encode a split with the base.

    Args:
        model: the trained base.
        dataset: the split.
        bank: training queries, (B, D), for the hub offset; None: the split's own queries, each without its own video.
        candidates: how many of a query's best videos are re-scored.
        inputs: ``raw`` (the features that the base was given), ``encoded`` (its words and frames), or ``both``.
        hub_count: of how many best queries of the bank a video's hub offset is the mean.
        alike: cosine from which on a query also describes the videos of another (``Dataset.described_by``).
        dtype: of words and frames. From bfloat16 a witness learns in bf16, and every step reads half the memory.
    """
    backbone, device = model.backbone, model.backbone.device
    queries = encode_query_batches(backbone, dataset.query_batches())
    longest = int(dataset.tables.word_count.max())
    words, masks = [], []
    with evaluation_mode(backbone):
        videos = join_videos(list(encode_video_batches(backbone, dataset.video_batches())))
        for batch in dataset.query_batches():
            spare = longest - batch.mask.shape[1]
            words.append(F.pad(word_inputs(backbone, batch.to(device), inputs), (0, 0, 0, spare)))
            masks.append(F.pad(batch.mask.bool().to(device), (0, spare)))
        base = torch.cat([backbone.base_score(some, videos) for some in torch.split(queries, 256)])
        reference = query_bank(queries if bank is None else bank)
        against = torch.cat([backbone.base_score(some, videos) for some in torch.split(reference.rows, 256)])
    slots = int(dataset.tables.frame_count.max())
    raw, shown = [], []
    for given in dataset.video_batches():
        spare = slots - given.frames.shape[1]
        raw.append(F.pad(given.frames, (0, 0, 0, spare)))
        shown.append(F.pad(given.frame_mask.bool(), (0, spare)))
    frames = joined_inputs(videos.frames[:, :slots], torch.cat(raw).to(device), inputs)
    read, mask = torch.cat(words), torch.cat(masks)
    mean = (read * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
    if inputs != "raw":
        mean = torch.cat([queries, mean[:, queries.shape[1] :]], 1)
    positive = dataset.described_by(alike).to(device)
    if bank is None:
        against = against.masked_fill(positive[reference.chosen], -1.0)
    return WitnessMaterial(
        words=read.to(dtype),
        word_mask=mask,
        pooled=mean.to(dtype),
        frames=frames.to(dtype),
        frame_mask=torch.cat(shown).to(device),
        base=base,
        candidates=base.topk(min(candidates, base.shape[1]), dim=1).indices,
        truth=dataset.query_video.to(device),
        positive=positive,
        hubs=hub_offset(against, hub_count),
        shared=0 if inputs == "raw" else queries.shape[1],
    )


def word_inputs(backbone: Backbone, batch: QueryBatch, which: str) -> Tensor:
    """What a witness reads of queries: (Q, L, Dw)."""
    if which == "raw":
        return batch.tokens.float()
    return joined_inputs(backbone.word_states(batch.tokens, batch.mask).float(), batch.tokens, which)


def joined_inputs(encoded: Tensor, raw: Tensor, which: str) -> Tensor:
    """The base's vectors, the features it was given, or both side by side."""
    if which == "both":
        return torch.cat([encoded, raw.to(encoded.dtype)], -1)
    return encoded if which == "encoded" else raw.float()


@dataclass(frozen=True)
class QueryBank:
    """Some queries (B, D), and their rows (B,) among all."""

    rows: Tensor
    chosen: Tensor


def query_bank(queries: Tensor) -> QueryBank:
    """At most ``_BANK`` queries, evenly spread."""
    chosen = torch.arange(0, len(queries), max(1, math.ceil(len(queries) / _BANK)), device=queries.device)
    return QueryBank(queries[chosen], chosen)


def train_witness(
    material: WitnessMaterial,
    stage: WitnessStage,
    seed: int,
    *,
    progress: str = "",
    stop: Interrupted | None = None,
) -> Witness:
    """A witness that tells a query's video from the base's best wrong ones (listwise cross-entropy).

    Args:
        material: what it learns from.
        stage: how.
        seed: of its weights and batches.
        progress: label of a progress bar; empty: none is shown.
        stop: raised after the step in which it is requested.
    """
    device = material.device
    torch.manual_seed(seed)
    widths = material.words.shape[-1], material.frames.shape[-1]
    witness = Witness(*widths, stage.witness, material.shared).to(device).train()
    optimiser = torch.optim.AdamW(witness.parameters(), stage.learning_rate, weight_decay=stage.weight_decay)
    wrong = material.base.masked_fill(material.positive, -torch.inf)
    pool = wrong.topk(min(stage.pool, wrong.shape[1] - int(material.positive.sum(1).max())), dim=1).indices
    kept_memory = KeptMemory()
    target = torch.zeros(stage.queries, dtype=torch.long, device=device)
    for step in show_progress(range(stage.steps), total=stage.steps, label=progress, show=bool(progress)):
        if stop is not None and stop.requested:
            raise stop
        rate = min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / stage.steps))
        for group in optimiser.param_groups:
            group["lr"] = stage.learning_rate * rate
        rows = torch.randint(len(pool), (stage.queries,), device=device)
        drawn = torch.rand(stage.queries, pool.shape[1], device=device).topk(min(stage.negatives, pool.shape[1]), 1)
        videos = torch.cat([material.truth[rows, None], pool[rows].gather(1, drawn.indices)], 1)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=material.frames.dtype == torch.bfloat16):
            found = _read(witness, material, rows, videos)
        logits = witness.log_scale.exp() * found.score
        if stage.base_weight:
            logits = logits + stage.base_weight * material.base[rows[:, None], videos]
        loss = F.cross_entropy(logits, target)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if device.type == "cpu":
            kept_memory.limit()
    return witness.eval()


def _read(witness: Witness, material: WitnessMaterial, rows: Tensor, videos: Tensor) -> WordEvidence:
    """Evidence of queries (N,) in their videos (N, K). Each video is read once, however many queries meet it."""
    named, place = torch.unique(videos, return_inverse=True)
    mask = material.frame_mask[named]
    read = witness.read_frames(material.frames[named], mask)
    # Gradients of ``read[place]`` are summed in no fixed order on several cores, so that a seed would not be enough.
    frames = read.index_select(0, place.flatten()).view(*place.shape, *read.shape[1:])
    return witness.compare(*witness.read_words(material.words[rows], material.word_mask[rows]), frames, mask[place])


@torch.no_grad()
def witness_scores(witness: Witness, material: WitnessMaterial, *, uniform: bool = False) -> Tensor:
    """S_words of every query's candidates, (Q, K). ``uniform``: all words and frames count the same, a control."""
    parts = zip(torch.split(material.frames, _VIDEOS), torch.split(material.frame_mask, _VIDEOS), strict=True)
    frames = torch.cat([witness.read_frames(some.float(), mask) for some, mask in parts])  # once, without any query
    words, weights = witness.read_words(material.words.float(), material.word_mask)
    scores = []
    at_once = max(1, _PAIRS // material.candidates.shape[1])
    for rows in torch.split(torch.arange(len(words), device=material.device), at_once):
        videos = material.candidates[rows]
        mask = material.frame_mask[videos]
        found = witness.compare(words[rows], weights[rows], frames[videos], mask)
        scores.append(uniform_score(found.evidence, material.word_mask[rows], mask) if uniform else found.score)
    return torch.cat(scores)
