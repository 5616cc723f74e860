"""Chooses the correction to explain by a rule, not by hand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.scoring import Positives, positive_pairs


@dataclass(frozen=True)
class Correction:
    """A query that TRACE moved up. A margin is the right video's score minus the best wrong video's."""

    query: int  # row of the scores
    truth: int  # gallery row of the right video
    negative: int  # gallery row of the hard negative: the best wrong video under the base score
    rank_before: int
    rank_after: int
    margin_before: float
    margin_after: float

    @property
    def restored(self) -> bool:
        """Whether the right video is now ranked first."""
        return self.rank_after == 1


def find_correction(
    base_ranks: Tensor, final_ranks: Tensor, base_scores: Tensor, final_scores: Tensor, positives: Positives
) -> Correction | None:
    """The query with the largest correction, or None where no rank improved.

    Among the queries that the base ranks wrong at the top and TRACE puts right, the one whose margin grew most. If
    there is none, the query whose rank improved most (of several, the one whose margin grew most). A tie that is left
    goes to the earliest query.

    Args:
        base_ranks, final_ranks: (Q,) 1-based.
        base_scores, final_scores: (Q, V), on one scale (the final score is the base score plus a residual).
        positives: the right videos, as ``ranks`` takes them.
    """
    if base_scores.shape != final_scores.shape or base_ranks.shape != final_ranks.shape:
        raise ValueError(
            f"scores {tuple(base_scores.shape)} and {tuple(final_scores.shape)}, ranks {tuple(base_ranks.shape)} and "
            f"{tuple(final_ranks.shape)}; expected both scorings of the same queries over the same gallery"
        )
    if len(base_ranks) != len(base_scores):
        raise ValueError(f"{len(base_ranks)} ranks for {len(base_scores)} rows of scores; expected one rank per row")
    base_ranks, final_ranks = base_ranks.to(base_scores.device), final_ranks.to(base_scores.device)
    rows = candidates(base_ranks, final_ranks)  # few, so only their scores are copied
    if not len(rows):
        return None
    is_positive = _positive_mask(base_scores, positives, rows)
    before, _, negative = _margins(base_scores[rows], is_positive)
    after, truth, _ = _margins(final_scores[rows], is_positive)
    pick = int((after - before).argmax())
    query = int(rows[pick])
    return Correction(
        query=query,
        truth=int(truth[pick]),
        negative=int(negative[pick]),
        rank_before=int(base_ranks[query]),
        rank_after=int(final_ranks[query]),
        margin_before=float(before[pick]),
        margin_after=float(after[pick]),
    )


def candidates(base_ranks: Tensor, final_ranks: Tensor) -> Tensor:
    """The queries that the rule looks at, (C,): those put right at the top, or else those improved most."""
    gain = base_ranks - final_ranks
    restored = (base_ranks > 1) & (final_ranks == 1)
    if not restored.any():
        restored = (gain > 0) & (gain == gain.max())
    return restored.nonzero().squeeze(1)


def _positive_mask(scores: Tensor, positives: Positives, rows: Tensor) -> Tensor:
    """Which videos are right for each chosen query, (C, V)."""
    query, video = positive_pairs(scores, positives)
    place = torch.full((len(scores),), -1, device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    chosen = place[query] >= 0
    mask = torch.zeros((len(rows), scores.shape[1]), dtype=torch.bool, device=scores.device)
    mask[place[query[chosen]], video[chosen]] = True
    return mask


def _margins(scores: Tensor, is_positive: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Margin (C,), best right video (C,), best wrong video (C,)."""
    right, right_row = scores.double().masked_fill(~is_positive, -torch.inf).max(1)
    wrong, wrong_row = scores.double().masked_fill(is_positive, -torch.inf).max(1)
    return right - wrong, right_row, wrong_row
