"""How a second score is added to a base's: weights that validation chooses, and the final scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prvr.scoring import ranks, recalls
from prvr.training.witness import WitnessMaterial


def fit_weight(material: WitnessMaterial, added: Tensor) -> float:
    """The weight of a second score next to the base's, by listwise cross-entropy on a split: one number, at least 0.

    Where the base's score says nothing about a query's candidates, the weight is so large that the second ranks alone.

    Args:
        material: the split (validation).
        added: the second score of its candidates, (Q, K).
    """
    own, other = _listwise(material, [added]).tolist()
    return float(max(other, 0.0) / max(own, 1e-9))


def fit_hubs(material: WitnessMaterial) -> float:
    """μ of ``S_base − μ·h``, on a split (validation)."""
    return fit_weight(material, -material.hubs[material.candidates])


@dataclass(frozen=True)
class QueryWeights:
    """A weight λ of the second score for each query, from how sure the base is: ``λ_q = max(0, a + b·z_q)``."""

    centre: Tensor  # (Z,) of z on validation
    spread: Tensor  # (Z,)
    constant: float  # a
    slopes: Tensor  # (Z,) b

    def __call__(self, material: WitnessMaterial) -> Tensor:
        """(Q, 1)"""
        known = (_certainty(material) - self.centre) / self.spread
        return (self.constant + known @ self.slopes).clamp(min=0.0)[:, None]


def fit_query_weights(material: WitnessMaterial, added: Tensor) -> QueryWeights:
    """λ of each query, by listwise cross-entropy on a split (validation): four numbers."""
    known = _certainty(material)
    centre, spread = known.mean(0), known.std(0, correction=0).clamp(min=1e-9)
    columns = [added, *(column[:, None] * added for column in ((known - centre) / spread).T)]
    own, *others = (_listwise(material, columns).to(added.dtype)).unbind()
    weights = torch.stack(others) / own.clamp(min=1e-9)
    return QueryWeights(centre, spread, float(weights[0]), weights[1:])


def _certainty(material: WitnessMaterial) -> Tensor:
    """z: the lead of the base's first answer, the spread of its candidates' scores, and the number of words. (Q, 3)"""
    scores = material.base.gather(1, material.candidates)
    lead = scores[:, 0] - scores[:, 1] if scores.shape[1] > 1 else torch.zeros_like(scores[:, 0])
    return torch.stack([lead, scores.std(1, correction=0), material.word_mask.sum(1).to(scores.dtype)], 1)


@torch.enable_grad()
def _listwise(material: WitnessMaterial, added: list[Tensor]) -> Tensor:
    """Weights (1 + n,) of the base's score and of n others: those under which correct candidates are most likely.

    Where no query has a correct candidate, the base's score is all that counts.
    """
    right = material.positive.gather(1, material.candidates)
    known = right.any(1)
    table = torch.stack([material.base.gather(1, material.candidates), *added], -1).double()[known]
    weights = torch.tensor([1.0, *(0.0 for _ in added)], dtype=table.dtype, device=table.device)
    if not len(table):
        return weights
    table, right = table - table.mean(1, keepdim=True), right[known]
    spread = table.std((0, 1), correction=0).clamp(min=1e-9)
    table = table / spread
    weights.requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        logits = table @ weights
        value = (logits.logsumexp(1) - logits.masked_fill(~right, -torch.inf).logsumexp(1)).mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach() / spread


def rescored_sum_r(material: WitnessMaterial, added: Tensor, weight: float) -> float:
    """SumR of a split's final scores, by which validation chooses what a witness reads."""
    return recalls(ranks(rescored(material, added, weight), material.truth)).sum_r


def rescored(material: WitnessMaterial, added: Tensor, weight: float) -> Tensor:
    """Final scores (Q, V): candidates in the order of ``S + λ·added``, all others below them in their old order."""
    own = material.base.gather(1, material.candidates)
    new = own + weight * added
    new = new - new.amin(1, keepdim=True) + own.amin(1, keepdim=True)
    return material.base.scatter(1, material.candidates, new)
