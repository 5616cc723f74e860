"""Which mistakes of a run are shown: chosen by rules, never by hand.

Every kind of mistake orders the queries that belong to it (``KINDS`` says how). The kinds take turns: each takes its
first query that no other kind has taken, until enough are chosen or none is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.evaluation.encoded_split import encode_subject
from prvr.evaluation.subject import Subject
from prvr.evaluation.views import pair_views
from prvr.scoring import ranks
from prvr.training import split_scores


@dataclass(frozen=True)
class MistakeKind:
    """One kind of mistake, in words."""

    key: str
    title: str
    rule: str  # which queries, and in which order
    needs_trace: bool = False


KINDS = (
    MistakeKind(
        "lifted",
        "Ranks that TRACE raised",
        "Queries whose labelled video rises; by the ratio of the two ranks, so that 50 → 1 counts more than 900 → 800. "
        "The other video is the base's first answer.",
        True,
    ),
    MistakeKind(
        "dropped",
        "Ranks that TRACE lowered",
        "Queries whose labelled video falls; by the ratio of the two ranks. The other video is the first answer.",
        True,
    ),
    MistakeKind(
        "unsupported",
        "First answers with an unsupported peak",
        "Queries whose first answer is wrong and has a larger unsupported gap than the labelled video (direct evidence "
        "minus register support, where direct evidence peaks); by the difference of the two gaps.",
        True,
    ),
    MistakeKind(
        "positives",
        "First answers beside the label, where several videos are correct",
        "Queries with several correct videos whose first answer is not the labelled one; those whose first answer is "
        "correct all the same come first, then by its lead over the labelled video.",
    ),
    MistakeKind(
        "near",
        "Near misses",
        "Queries whose first answer is wrong; by its lead over the labelled video, smallest first.",
    ),
    MistakeKind(
        "sure",
        "Clear mistakes",
        "Queries whose first answer is wrong; by its lead over the labelled video, largest first.",
    ),
)


@dataclass(frozen=True)
class RankedQueries:
    """Both rankings of a split, and what the rules look at; (Q,) each. A lead is a difference of final scores."""

    base_ranks: Tensor
    final_ranks: Tensor
    truth: Tensor  # gallery row of the labelled video
    base_first: Tensor  # gallery row of the first answer by the base score
    first: Tensor  # and by the final score
    lead: Tensor  # of the first answer over the labelled video
    best_correct: Tensor  # final rank of the best correct video
    positives: Sequence[Sequence[int]]  # gallery rows of all correct videos
    gap: Tensor | None = None  # unsupported gap of the first answer; None without TRACE
    truth_gap: Tensor | None = None  # and of the labelled video

    @property
    def with_trace(self) -> bool:
        return self.gap is not None and self.truth_gap is not None

    @property
    def wrong(self) -> Tensor:
        """Queries whose first answer is none of the correct videos, (Q,) bool."""
        return self.best_correct > 1


@dataclass(frozen=True)
class Mistake:
    """One chosen query."""

    kind: MistakeKind
    query: int
    truth: int  # gallery row of the labelled video
    other: int  # gallery row of the video it is compared with


def rank_queries(subject: Subject) -> RankedQueries:
    """Rank a split by base and final score, and look at each query's labelled video and first answer."""
    dataset = subject.dataset
    scores = split_scores(subject.model, dataset, use_trace=subject.with_trace)
    base, final = scores.base, scores.final(subject.fusion_weight) if subject.with_trace else scores.base
    truth = dataset.query_video.to(base.device)
    top = final.max(1)
    found = RankedQueries(
        base_ranks=ranks(base, truth).cpu(),
        final_ranks=ranks(final, truth).cpu(),
        truth=dataset.query_video,
        base_first=base.argmax(1).cpu(),
        first=top.indices.cpu(),
        lead=(top.values - final.gather(1, truth[:, None]).squeeze(1)).cpu(),
        best_correct=ranks(final, dataset.positives).cpu(),
        positives=dataset.positives,
    )
    if not subject.with_trace:
        return found
    views = pair_views(subject, encode_subject(subject, timed=False), found.truth, found.first)
    assert views.truth is not None
    assert views.negative is not None
    return RankedQueries(
        **{**vars(found), "gap": views.negative.unsupported_gap, "truth_gap": views.truth.unsupported_gap}
    )


def candidates_by_kind(found: RankedQueries) -> dict[str, list[int]]:
    """By kind, its queries in the order of its rule; of equals, the earlier query first."""
    ordered: dict[str, list[int]] = {}
    if found.gap is not None and found.truth_gap is not None:
        rise = found.base_ranks.double().log() - found.final_ranks.double().log()
        ordered["lifted"] = _ordered(rise, rise > 0)
        ordered["dropped"] = _ordered(-rise, rise < 0)
        larger = found.gap - found.truth_gap
        ordered["unsupported"] = _ordered(larger, found.wrong & (larger > 0))
    several = torch.tensor([len(rows) > 1 for rows in found.positives])
    beside = several & (found.final_ranks > 1)
    correct_first = (~found.wrong).double() * (1 + found.lead.double().abs().max())
    ordered["positives"] = _ordered(found.lead + correct_first, beside)
    ordered["near"] = _ordered(-found.lead, found.wrong)
    ordered["sure"] = _ordered(found.lead, found.wrong)
    return ordered


def choose_mistakes(found: RankedQueries, count: int) -> list[Mistake]:
    """At most ``count`` mistakes, grouped by kind in the order of ``KINDS``."""
    waiting: Mapping[str, list[int]] = candidates_by_kind(found)
    chosen: dict[str, list[int]] = {kind: [] for kind in waiting}
    taken: set[int] = set()
    while len(taken) < count:
        before = len(taken)
        for kind, queries in waiting.items():
            left = next((query for query in queries if query not in taken), None)
            if left is not None and len(taken) < count:
                taken.add(left)
                chosen[kind].append(left)
        if len(taken) == before:
            break
    found_kinds = [(kind, query) for kind in KINDS for query in chosen.get(kind.key, [])]
    return [Mistake(kind, query, int(found.truth[query]), _other(kind, found, query)) for kind, query in found_kinds]


def _other(kind: MistakeKind, found: RankedQueries, query: int) -> int:
    """The video beside the labelled one: the one that TRACE has overtaken, or the first answer."""
    return int((found.base_first if kind.key == "lifted" else found.first)[query])


def _ordered(values: Tensor, among: Tensor) -> list[int]:
    rows = among.nonzero().squeeze(1)
    order = values[rows].sort(descending=True, stable=True).indices
    return [int(row) for row in rows[order]]
