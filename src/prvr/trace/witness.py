"""Witness, one function per equation: each word of a query is asked whether the video shows it, and when.

TRACE sends one pooled query through a video. Witness reads what pooling has lost. Every word w_l looks at every frame
f_i (e); the words together say where the video fits best (p); each word is then explained by the frames there (m); and
words that matter more weigh more (α). It is computed for the few best videos of a base ranking, and added to it:
``S = S_base + λ·S_words − μ·h``, where h is how well a video fits everybody's queries.

Letters of shapes: N queries, K candidate videos of each, L words, M frames, D width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.dropout import dropout
from prvr.tokens import TensorRecord

NO_FRAME = -2.0  # below any cosine


def word_weights(importance: Tensor, mask: Tensor) -> Tensor:
    """``α = softmax_l(v·w_l)`` over real words: (N, L), (N, L) → (N, L).

    >>> word_weights(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    return importance.masked_fill(~mask, torch.finfo(importance.dtype).min).softmax(-1) * mask


def word_evidence(words: Tensor, frames: Tensor, frame_mask: Tensor) -> Tensor:
    """``e_li = x_l·y_i`` of unit words and frames: (N, L, D), (N, K, M, D), (N, K, M) → (N, K, L, M)."""
    count, videos, length, width = frames.shape
    flat = words @ frames.reshape(count, videos * length, width).transpose(1, 2)  # (N, L, K·M)
    evidence = flat.view(count, words.shape[1], videos, length).transpose(1, 2)
    return evidence.masked_fill(~frame_mask[:, :, None], NO_FRAME)


def meeting_place(evidence: Tensor, weights: Tensor, frame_mask: Tensor, temperature: Tensor | float) -> Tensor:
    """``p = softmax_i(Σ_l α_l e_li / τ_p)``: where the words fit together, (N, K, L, M), (N, L) → (N, K, M)."""
    together = (weights[:, None, :, None] * evidence).sum(2)
    logits = (together / temperature).masked_fill(~frame_mask, torch.finfo(evidence.dtype).min)
    return logits.softmax(-1)


def explained_words(evidence: Tensor, place: Tensor, temperature: Tensor | float) -> Tensor:
    """``m_l = τ·log Σ_i p_i exp(e_li/τ)``: a word's best frames, near the meeting place, → (N, K, L).

    A small τ picks the word's best frame wherever p is not zero; a large one takes the mean over p.

    >>> e, p = torch.tensor([[[[0.9, 0.1]]]]), torch.tensor([[[0.5, 0.5]]])
    >>> explained_words(e, p, 10.0), explained_words(e, p, 0.01)
    (tensor([[[0.5080]]]), tensor([[[0.8931]]]))
    """
    return temperature * (evidence / temperature + place.clamp(min=1e-12).log()[:, :, None]).logsumexp(-1)


def explained_anywhere(evidence: Tensor) -> Tensor:
    """``m_l = max_i e_li``: a word's best frame anywhere, (N, K, L, M) → (N, K, L)."""
    return evidence.amax(-1)


def words_score(explained: Tensor, weights: Tensor) -> Tensor:
    """``S_words = Σ_l α_l m_l``: (N, K, L), (N, L) → (N, K)."""
    return (explained * weights[:, None]).sum(-1)


def uniform_score(evidence: Tensor, word_mask: Tensor, frame_mask: Tensor) -> Tensor:
    """A control: every word and every frame counts the same, (N, K, L, M), (N, L), (N, K, M) → (N, K)."""
    valid = word_mask[:, None, :, None] & frame_mask[:, :, None]
    return torch.where(valid, evidence, 0.0).sum((2, 3)) / valid.sum((2, 3)).clamp(min=1)


def hub_offset(bank_scores: Tensor, count: int) -> Tensor:
    """``h_v``: mean of a video's best scores with a bank of queries that are not about it, (B, V) → (V,).

    >>> hub_offset(torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.0, 0.2]]), 2)
    tensor([0.8000, 0.2500])
    """
    return bank_scores.topk(min(count, len(bank_scores)), dim=0).values.mean(0)


@dataclass(frozen=True)
class WitnessConfig:
    """The numbers of a witness."""

    width: int = 384
    """width D of the space where words and frames meet"""
    hidden: int = 256
    """inner width of the frame reader"""
    neighbours: int = 2
    """frames on each side that a frame is read with"""
    time: Literal["near", "any"] = "near"
    """near: a word is explained near the place where all words fit together; any: by its best frame anywhere"""
    dropout: float = 0.2
    """on the words and frames that it reads"""


@dataclass(frozen=True)
class WordEvidence(TensorRecord):
    """What a witness says about N queries and K videos of each."""

    score: Tensor  # (N, K) S_words
    explained: Tensor  # (N, K, L) m
    weights: Tensor  # (N, L) α
    evidence: Tensor  # (N, K, L, M) e
    place: Tensor  # (N, K, M) p


class Witness(nn.Module):
    """Reads words and frames of any backbone.

    Args:
        word_width: of the word states.
        frame_width: of the frame tokens.
        config: its other numbers.
        shared: how many leading dimensions of words and frames are a space that they share already, such as the
            backbone's. Words and frames then start out compared in it; what follows them starts at zero.
    """

    def __init__(self, word_width: int, frame_width: int, config: WitnessConfig | None = None, shared: int = 0):
        super().__init__()
        self.config, self.shared = config or WitnessConfig(), shared
        width, hidden = self.config.width, self.config.hidden
        self.word, self.frame = (nn.Linear(each, width, bias=False) for each in (word_width, frame_width))
        self.importance = nn.Linear(word_width, 1)
        self.inward, self.outward = nn.Linear(frame_width, hidden), nn.Linear(hidden, width)
        self.log_scale = nn.Parameter(torch.tensor(math.log(20.0)))  # of the score, in its loss
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.05)))  # τ
        self.log_place = nn.Parameter(torch.tensor(math.log(0.2)))  # τ_p
        nn.init.zeros_(self.importance.weight)
        if shared:
            self._start_in_the_shared_space()

    @torch.no_grad()
    def _start_in_the_shared_space(self) -> None:
        start = torch.eye(self.config.width, self.shared)
        if self.config.width < self.shared:
            nn.init.orthogonal_(start)
        for projection in (self.word, self.frame):
            nn.init.zeros_(projection.weight)
            projection.weight[:, : self.shared] = start
        nn.init.zeros_(self.outward.weight)
        nn.init.zeros_(self.outward.bias)

    def _input(self, states: Tensor) -> Tensor:
        """Both parts of the input with a mean square of 1, and dropout."""
        parts = [states[..., : self.shared], states[..., self.shared :]]
        scaled = [F.normalize(part, dim=-1) * part.shape[-1] ** 0.5 for part in parts if part.shape[-1]]
        return dropout(torch.cat(scaled, -1), self.config.dropout, self.training)

    def read_words(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(N, L, Dw), (N, L) → unit words (N, L, D) and their weights α (N, L)."""
        states = self._input(words)
        return F.normalize(self.word(states), dim=-1), word_weights(_full(self.importance(states).squeeze(-1)), mask)

    def read_frames(self, frames: Tensor, mask: Tensor) -> Tensor:
        """(…, M, Df), (…, M) → unit frames (…, M, D), each read with its neighbours."""
        states = self._input(frames)
        projected = self.frame(states) + self.outward(F.gelu(self.inward(states)))
        return F.normalize(neighbourhood(projected, mask, self.config.neighbours), dim=-1)

    def compare(self, words: Tensor, weights: Tensor, frames: Tensor, frame_mask: Tensor) -> WordEvidence:
        """What ``read_words`` and ``read_frames`` gave, compared: (N, L, D), (N, L), (N, K, M, D), (N, K, M)."""
        return self.judge(_full(word_evidence(words, frames, frame_mask)), weights, frame_mask)

    def judge(self, evidence: Tensor, weights: Tensor, frame_mask: Tensor) -> WordEvidence:
        """What follows from the evidence: (N, K, L, M), which ``NO_FRAME`` pads, (N, L), (N, K, M)."""
        place = meeting_place(evidence, weights, frame_mask, self.log_place.exp())
        near = self.config.time == "near"
        explained = (
            explained_words(evidence, place, self.log_temperature.exp()) if near else explained_anywhere(evidence)
        )
        return WordEvidence(words_score(explained, weights), explained, weights, evidence, place)

    def forward(self, words: Tensor, mask: Tensor, frames: Tensor, frame_mask: Tensor) -> WordEvidence:
        """(N, L, Dw), (N, L), (N, K, M, Df), (N, K, M) → evidence of the N × K pairs."""
        return self.compare(*self.read_words(words, mask), self.read_frames(frames, frame_mask), frame_mask)


def _full(tensor: Tensor) -> Tensor:
    """At least float32, for what comes after a product in half precision."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def neighbourhood(frames: Tensor, mask: Tensor, reach: int) -> Tensor:
    """Each frame plus the mean of the valid frames up to ``reach`` away: (…, M, D), (…, M) → (…, M, D).

    >>> neighbourhood(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([True, True, False]), 1).flatten()
    tensor([2.5000, 3.5000, 0.0000])
    """
    if reach == 0:
        return frames
    window, shape = 2 * reach + 1, frames.shape
    valid = mask[..., None].to(frames.dtype)
    flat = (frames * valid).flatten(0, -3) if frames.ndim > 2 else (frames * valid)[None]
    share = valid.flatten(0, -3) if frames.ndim > 2 else valid[None]
    sums = F.avg_pool1d(flat.transpose(1, 2), window, 1, reach)
    counts = F.avg_pool1d(share.transpose(1, 2), window, 1, reach)
    means = (sums / counts.clamp(min=1 / window / 2)).transpose(1, 2).reshape(shape)
    return (frames + means) * valid
