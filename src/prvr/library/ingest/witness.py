"""The witness of a trained model in a library: what is kept of each section, and what words see there.

Frames are read when a video is added, words when a search asks. Comparing them is a small product, so a search does it
for the best videos of its ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from prvr.backbones import Backbone
from prvr.library.ingest.embedding import Embedded
from prvr.library.store.background import Floats
from prvr.library.store.rows import WITNESS_FRAMES, WITNESS_HUB
from prvr.training import FittedWitness


@dataclass(frozen=True, eq=False)
class SeenWords:
    """What the words of a sentence see in K sections."""

    score: Floats  # (K,) S_words
    explained: Floats  # (K, L) how well each word is explained, 1 at best
    evidence: tuple[Floats, ...]  # K times (L, m): what each word sees in each frame


class LibraryWitness:
    """A fitted witness that reads raw features."""

    def __init__(self, fitted: FittedWitness):
        self.fitted = fitted
        fitted.witness.requires_grad_(False)

    @torch.no_grad()
    def arrays(self, backbone: Backbone, embedded: Embedded, pages: int, page: int) -> dict[str, NDArray[np.generic]]:
        """What is kept of a section: its frames (pages, n, D), and its hub offset h (1, 1).

        Args:
            backbone: the model.
            embedded: the section.
            pages: that its tokens fill.
            page: tokens of a page.
        """
        assert embedded.frames is not None
        read = self.fitted.witness.read_frames(embedded.frames, torch.ones(len(embedded.frames), dtype=torch.bool))
        if embedded.tokens.evidence_from == "clips":  # there are as many in every section, of however many frames
            page = -(-backbone.config.frames // pages)
        frames = np.zeros((pages * page, read.shape[1]), np.float16)
        frames[: len(read)] = read.half().numpy()
        hub = self.fitted.hub_offset(backbone, embedded.tokens)
        return {WITNESS_FRAMES: frames.reshape(pages, page, -1), WITNESS_HUB: hub.float().numpy()[:, None]}

    @torch.no_grad()
    def read(self, names: Sequence[str], words: Tensor) -> SentenceWords:
        """The words of one sentence, (L, Dq)."""
        found, weights = self.fitted.witness.read_words(words[None], torch.ones(1, len(words), dtype=torch.bool))
        return SentenceWords(self.fitted, tuple(names), found, weights)


@dataclass(frozen=True, eq=False)
class SentenceWords:
    """The words of a sentence as a witness reads them."""

    fitted: FittedWitness
    names: tuple[str, ...]
    vectors: Tensor  # (1, L, D)
    weights: Tensor  # (1, L) α

    @torch.no_grad()
    def seen_in(self, frames: Sequence[NDArray[np.float16]]) -> SeenWords:
        """What they see in the frames (m, D) of K sections."""
        counts = torch.tensor([len(each) for each in frames])
        padded = pad_sequence([torch.from_numpy(each) for each in frames], batch_first=True).float()[None]
        mask = (torch.arange(padded.shape[2]) < counts[:, None])[None]
        found = self.fitted.witness.compare(self.vectors, self.weights, padded, mask)
        evidence = tuple(each[:, : len(one)].numpy() for each, one in zip(found.evidence[0], frames, strict=True))
        return SeenWords(found.score[0].numpy(), found.explained[0].numpy(), evidence)
