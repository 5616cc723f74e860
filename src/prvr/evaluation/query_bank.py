"""The query-bank correction: scores of videos that fit every sentence are lowered.

What a video scores with a bank of training sentences, none of which is about it, says how much of a hub it is. The
corrected score is S(q, v) − τ·log Σ_b exp(S(b, v)/τ) over the bank's sentences b. It is used for queries whose first
answer is a video that is first for some sentence of the bank; other queries keep their scores. This is the dynamic
inverted softmax of QB-Norm (Bogolin et al., 2022), with its inverse temperature of 20. Queries of the ranked split
are never part of the bank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.data import DataError, Dataset
from prvr.evaluation.ranked_data import find_data
from prvr.evaluation.subject import Subject
from prvr.training import RunError, split_scores

TEMPERATURE = 1 / 20  # τ
LARGEST_BANK = 8192  # sentences, evenly spread over the training split


@dataclass(frozen=True)
class BankCorrection:
    """What a bank of sentences says about the videos of a gallery."""

    offset: Tensor  # (V,) τ·logsumexp of the bank's scores
    is_hub: Tensor  # (V,) bool: first for some sentence of the bank

    @staticmethod
    def of(bank_scores: Tensor, temperature: float = TEMPERATURE) -> BankCorrection:
        """From the scores of the bank's sentences, (B, V)."""
        is_hub = torch.zeros(bank_scores.shape[1], dtype=torch.bool, device=bank_scores.device)
        is_hub[bank_scores.argmax(1)] = True
        return BankCorrection(temperature * (bank_scores.double() / temperature).logsumexp(0), is_hub)

    def apply(self, scores: Tensor) -> Tensor:
        """Corrected scores, (Q, V) → (Q, V)."""
        concerned = self.is_hub.to(scores.device)[scores.argmax(1)]
        offset = self.offset.to(scores.device)
        return torch.where(concerned[:, None], scores.double() - offset, scores.double())


@dataclass(frozen=True)
class SentenceBank:
    """Corrections by scoring (base, trace), and where their sentences are from."""

    corrections: dict[str, BankCorrection]
    sentences: int
    source: str

    @property
    def note(self) -> str:
        return f"query bank: {self.sentences:,} sentences of {self.source}"


def sentence_bank(subject: Subject) -> SentenceBank:
    """Score the videos of a subject's split with training sentences.

    They are those of the dataset that is ranked, or, if it has no training split, those that the run was trained on.

    Raises:
        DataError: neither can be read.
    """
    train = _training_split(subject)
    own = {caption.id for caption in subject.dataset.captions} if train.collection == subject.dataset.collection else {}
    rows = [row for row, caption in enumerate(train.captions) if caption.id not in own]
    if not rows:
        raise DataError(f"--query-bank needs sentences that are not ranked: all of {train.split} are.")
    rows = rows[:: math.ceil(len(rows) / LARGEST_BANK)]
    scores = split_scores(subject.model, _asked_by(subject.dataset, train, rows), use_trace=subject.with_trace)
    found = {"base": BankCorrection.of(scores.base)}
    if subject.with_trace:
        found["trace"] = BankCorrection.of(scores.final(subject.fusion_weight))
    return SentenceBank(found, len(rows), f"{train.collection} {train.split}")


def _training_split(subject: Subject) -> Dataset:
    name, problems = subject.config.data.train_split, []
    for ranked in (subject.data, None):
        try:
            return (ranked or find_data(subject.run)).load(name)  # a run from the hub has no data of its own
        except (DataError, RunError) as problem:
            problems.append(str(problem))
    raise DataError(f"--query-bank needs the sentences of the training split. {problems[0]}")


def _asked_by(dataset: Dataset, other: Dataset, rows: list[int]) -> Dataset:
    """The videos of one dataset with queries of another, which have no right answers there."""
    table, chosen = other.tables.words, torch.tensor(rows)
    count = other.tables.word_count[chosen]
    start = count.cumsum(0) - count
    place = torch.arange(int(count.sum())) + (other.tables.word_start[chosen] - start).repeat_interleave(count)
    words = F.pad(table[place.to(table.device)], (0, 0, 0, 1))  # only theirs are read, and moved to the GPU
    tables = replace(dataset.tables, words=words.to(dataset.tables.words.device), word_start=start, word_count=count)
    captions = tuple(other.captions[row] for row in rows)
    unknown = torch.zeros(len(rows), dtype=torch.long)
    return replace(
        dataset, captions=captions, query_video=unknown, positives=[(0,)] * len(rows), moments=None, tables=tables
    )
