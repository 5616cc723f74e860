"""What a study found: ranks under every scoring, each query's rivals, and how its own video looks to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from prvr.evaluation.curve_moments import MomentOverlaps, moment_overlaps
from prvr.evaluation.finer.answers import Answers
from prvr.evaluation.finer.corpus_moments import MomentSearch
from prvr.evaluation.finer.measure import Finer
from prvr.evaluation.subject import Subject
from prvr.evaluation.views import PairViews
from prvr.tokens import TensorRecord
from prvr.trace import RegisterSpread


@dataclass(frozen=True)
class Rivals(TensorRecord):
    """Each query's own video and its hard negative, the best wrong video under the base score; (Q,) each.

    ``margin_after`` is over the best wrong video under the final score, which may be another one.
    """

    negative: Tensor  # gallery row
    base_truth: Tensor
    base_negative: Tensor
    trace_truth: Tensor  # evidence score S_trace; zero without TRACE
    trace_negative: Tensor
    margin_after: Tensor

    @property
    def margin_before(self) -> Tensor:
        return self.base_truth - self.base_negative


@dataclass(frozen=True)
class Study:
    """What the pass found. Ranks are of the labelled video, (Q,) int64, by scoring."""

    subject: Subject
    ranks: Mapping[str, Tensor]  # base, and with TRACE every variant's key
    sweeps: Mapping[str, Mapping[float, Tensor]]  # by λ, γ, η: ranks at each value
    answers: Mapping[str, Answers]  # base, trace, and with a query bank base_bank, trace_bank
    searches: Mapping[str, MomentSearch] | None  # moments in the corpus; empty: not known; None: not searched
    bank: str  # which sentences the query bank has; empty without one
    rivals: Rivals
    spread: RegisterSpread | None  # whether registers differ; None where there are none
    activation: Tensor | None  # (Q, R) of the registers of each query's own video; None where there are none
    views: PairViews | None  # what single videos look like to single queries; None for a method without vectors
    seconds: Mapping[str, float]

    @property
    def final(self) -> str:
        """The scoring this run ranks by."""
        return "trace" if self.subject.with_trace else "base"

    @property
    def any_ranks(self) -> Mapping[str, Tensor]:
        """Ranks of the best of several correct videos; empty where there is one each."""
        found = {name: answers.any_ranks for name, answers in self.answers.items()}
        return found if self.subject.several_positives else {}

    @cached_property
    def finer(self) -> Finer:
        """Groups of queries, several correct videos, moments in the corpus, and hubs."""
        ranked = {name: self.ranks[name] for name in (*self.answers, *({"witness"} & {*self.ranks}))}
        return Finer(self.subject, ranked, self.answers, self.searches or {}, searched=self.searches is not None)

    @cached_property
    def curves(self) -> Mapping[str, Tensor]:
        """Evidence curves in each query's own video, (Q, M) each: base, and with TRACE direct and trace (routed).

        Padding holds −∞.
        """
        if self.views is None:
            return {}
        found = {"base": self.views.base}
        if self.views.truth is not None:
            found |= {"direct": self.views.truth.direct, "trace": self.views.truth.routed}
        return found

    @cached_property
    def moments(self) -> MomentOverlaps:
        """How well stretches of each curve overlap the annotated moments."""
        return moment_overlaps(self.subject.dataset, self.curves)

    @property
    def baseline_errors(self) -> Tensor:
        """Queries whose best video under the base score is a wrong one, (Q,) bool."""
        return self.ranks["base"] > 1
