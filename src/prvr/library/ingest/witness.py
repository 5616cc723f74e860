"""The witness of a trained model in a library: what is kept of each section, and what words see there.

Frames are read when a video is added, words when a search asks. Comparing them is a small product, so a search does it
for the best videos of its ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from prvr.backbones import Backbone
from prvr.library.ingest.embedding import Embedded
from prvr.library.store.background import Floats
from prvr.library.store.rows import WITNESS_FACTS, WITNESS_FRAMES
from prvr.processes import usable_cores
from prvr.scoring import OneCoreThreads
from prvr.tokens import QueryBatch
from prvr.trace import NO_FRAME
from prvr.training import FittedWitness

# the products are small, and cores that are busy would hold them up
_one_core_each = OneCoreThreads("prvr-words")
_CACHED = 4  # sections whose frames fit into the cache of a core in full precision


@dataclass(frozen=True, eq=False)
class SeenWords:
    """What the words of a sentence see in K sections."""

    score: Floats  # (K,) S_words
    explained: Floats  # (K, L) how well each word is explained, 1 at best
    padded: Floats  # (K, L, M) what each word sees in each frame
    counts: tuple[int, ...]  # frames m of each section

    @property
    def evidence(self) -> tuple[Floats, ...]:
        """K times (L, m)."""
        return tuple(each[:, :count] for each, count in zip(self.padded, self.counts, strict=True))


class LibraryWitness:
    """The fitted witness of a model.

    Args:
        fitted: the witness.
        backbone: the base of the model, whose words and frames it may read.
    """

    def __init__(self, fitted: FittedWitness, backbone: Backbone):
        self.fitted, self.backbone = fitted, backbone
        fitted.witness.requires_grad_(False)

    def arrays(self, embedded: Embedded, pages: int, page: int) -> dict[str, NDArray[np.generic]]:
        """What is kept of a section: its frames (pages, n, D); its hub offset h and the number of frames (1, 2).

        Args:
            embedded: the section.
            pages: that its tokens fill.
            page: tokens of a page.
        """
        assert embedded.frames is not None
        given = embedded.frames[None]
        (read,) = self.fitted.read_frames(embedded.tokens, given, torch.ones(given.shape[:2], dtype=torch.bool))
        if embedded.tokens.evidence_from == "clips":  # there are as many in every section, of however many frames
            page = -(-self.backbone.config.frames // pages)
        frames = np.zeros((pages * page, read.shape[1]), np.float16)
        frames[: len(read)] = read.half().numpy()
        facts = np.array([[float(self.fitted.hub_offset(self.backbone, embedded.tokens)), len(read)]], np.float32)
        return {WITNESS_FRAMES: frames.reshape(pages, page, -1), WITNESS_FACTS: facts}

    def read(self, names: Sequence[Sequence[str]], words: Sequence[Tensor]) -> list[SentenceWords]:
        """The words of each sentence, (L, Dq)."""
        return _one_core_each.executor(usable_cores()).submit(self._read, names, words).result()

    def _read(self, names: Sequence[Sequence[str]], words: Sequence[Tensor]) -> list[SentenceWords]:
        mask = pad_sequence([torch.ones(len(each), dtype=torch.bool) for each in words], batch_first=True)
        found, weights = self.fitted.read_words(
            self.backbone, QueryBatch(pad_sequence([*words], batch_first=True), mask)
        )
        rows = zip(names, words, torch.split(found, 1), torch.split(weights, 1), strict=True)
        return [
            SentenceWords(self.fitted, tuple(of_one), vectors[:, : len(each)], important[:, : len(each)])
            for of_one, each, vectors, important in rows
        ]


@dataclass(frozen=True, eq=False)
class SentenceWords:
    """The words of a sentence as a witness reads them."""

    fitted: FittedWitness
    names: tuple[str, ...]
    vectors: Tensor  # (1, L, D)
    weights: Tensor  # (1, L) α

    def seen_in(self, frames: Sequence[NDArray[np.float16]]) -> SeenWords:
        """What they see in the frames (m, D) of K sections."""
        return self.look_into(frames).result()

    def look_into(self, frames: Sequence[NDArray[np.float16]]) -> Future[SeenWords]:
        """Begin with ``seen_in``, so that several sentences are compared at the same time."""
        return _one_core_each.executor(usable_cores()).submit(self._seen_in, frames)

    @torch.no_grad()
    def _seen_in(self, frames: Sequence[NDArray[np.float16]]) -> SeenWords:
        counts = [len(each) for each in frames]
        evidence = torch.empty(len(frames), self.vectors.shape[1], max(counts))
        buffer = torch.zeros(min(_CACHED, len(frames)), max(counts), self.vectors.shape[2])
        for first in range(0, len(frames), _CACHED):
            some = frames[first : first + _CACHED]
            for slots, each in zip(buffer, some, strict=False):
                slots[: len(each)].copy_(torch.from_numpy(each))
            read = buffer[: len(some)].transpose(1, 2)
            torch.bmm(self.vectors.expand(len(some), -1, -1), read, out=evidence[first : first + len(some)])
        mask = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
        evidence.masked_fill_(~mask[:, None], NO_FRAME)
        found = self.fitted.witness.judge(evidence[None], self.weights, mask[None])
        return SeenWords(found.score[0].numpy(), found.explained[0].numpy(), evidence.numpy(), tuple(counts))
