"""One pass over all query–video pairs, from which every table of a report is read.

Scores are made for a few hundred queries against the whole gallery, turned into ranks by counting, and dropped: memory
does not grow with the number of queries, and no score is ever sorted. All variants of TRACE share the products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.evaluation.encoded_split import EncodedSplit, encode_subject
from prvr.evaluation.findings import Rivals, Study
from prvr.evaluation.finer.answers import Answers
from prvr.evaluation.finer.corpus_moments import search_is_quick, search_moments
from prvr.evaluation.query_bank import SentenceBank
from prvr.evaluation.subject import Subject, witness_ranking
from prvr.evaluation.views import PairViews, pair_views
from prvr.scoring import ranks
from prvr.trace import TRACE_VARIANT, VARIANTS, RegisterSpread, VariantFactors, fuse, route_name, variant_parts
from prvr.trace import operator as op

LAMBDAS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0)
GAMMAS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
ETAS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
QUERY_CHUNK = 512
TILE_ELEMENTS = 1 << 20  # pairs × frames of a tile: a few MB, so that the passes over it stay in a core's cache

Tick = Callable[[int, int], None]  # queries done, queries in all


def run_study(
    subject: Subject,
    tick: Tick | None = None,
    *,
    timed: bool = True,
    corpus_moments: bool | None = None,
    moments_tick: Tick | None = None,
    bank: SentenceBank | None = None,
) -> Study:
    """Encode the split, rank it in every way, and look at each query's own video and hard negative.

    Args:
        subject: run and split.
        tick: called as queries are ranked, with the queries done and all queries.
        timed: also score as a search does, only to measure how long that takes.
        corpus_moments: search every query's moment in its 100 best videos; None: only where that takes seconds.
        moments_tick: called while that is done, with the videos looked into and all videos.
        bank: also rank with the query-bank correction.
    """
    split = encode_subject(subject, timed=timed)
    found = _Collected(subject, bank)
    total = len(subject.dataset.captions)
    for rows in _slices(total, QUERY_CHUNK):
        found.add(rows, *_scores(subject, split, rows))
        if tick is not None:
            tick(rows.stop, total)
    rivals = Rivals.cat(found.rivals)
    truth = subject.dataset.query_video
    by_witness = witness_ranking(subject)
    if by_witness is not None:
        found.ranks["hubs"] = [ranks(by_witness.hubs, truth).cpu()]
        found.ranks["witness"] = [ranks(by_witness.final, truth).cpu()]
    views = pair_views(subject, split, truth, rivals.negative.cpu()) if split.has_vectors else None
    registers = _registers(split)
    answers = {name: Answers.join(parts) for name, parts in found.answers.items()}
    config = subject.model.trace.config
    if corpus_moments is None:
        corpus_moments = not split.has_vectors or search_is_quick(subject.dataset, split)
    return Study(
        subject=subject,
        ranks={name: torch.cat(parts) for name, parts in found.ranks.items()},
        sweeps={
            letter: {value: torch.cat(parts) for value, parts in values.items()}
            for letter, values in found.sweeps.items()
        },
        answers=answers,
        searches=search_moments(subject.dataset, split, config, answers, moments_tick) if corpus_moments else None,
        bank="" if bank is None else bank.note,
        rivals=rivals.to("cpu"),
        spread=None if registers is None else RegisterSpread.of(registers),
        activation=_activation(subject, split, views),
        views=views,
        seconds=split.times.seconds,
    )


def _registers(split: EncodedSplit) -> Tensor | None:
    """Unit registers (V, R, D): TRACE's projected ones, or the backbone's own where TRACE was not trained."""
    if split.factors is not None:
        return split.factors.registers
    own = split.videos.registers
    return None if own is None or not split.has_vectors else F.normalize(own, dim=-1)


@torch.no_grad()
def _activation(subject: Subject, split: EncodedSplit, views: PairViews | None) -> Tensor | None:
    """How each query activates the registers of its own video, (Q, R); without TRACE by plain cosines."""
    if views is not None and views.truth is not None:
        return views.truth.activation
    registers = _registers(split)
    if registers is None:
        return None
    own = registers[subject.dataset.query_video.to(registers.device)]
    affinity = torch.einsum("qd,qrd->qr", split.queries, own)
    return op.register_activation(affinity, subject.model.trace.config.temperature).cpu()


@torch.no_grad()
def _scores(subject: Subject, split: EncodedSplit, rows: slice) -> tuple[Tensor, dict[str, Tensor]]:
    """Base scores (n, V), and all parts of TRACE (n, V) by name, of a chunk of queries."""
    base: list[Tensor] = []
    parts: list[dict[str, Tensor]] = []
    for tile in _tiles(split, rows):
        base.append(split.base(rows, tile))
        if split.factors is not None and split.projected is not None:
            videos = _part(split.factors, tile)
            config = subject.model.trace.config
            strengths = with_value(GAMMAS, config.routing_strength)
            parts.append(variant_parts(split.projected[rows], videos, config, strengths))
    names = parts[0] if parts else {}
    return torch.cat(base, 1), {name: torch.cat([part[name] for part in parts], 1) for name in names}


def with_value(grid: Sequence[float], value: float) -> list[float]:
    """The values of a sweep, with the one in force among them.

    >>> with_value((0.0, 0.1), 0.06), with_value((0.0, 0.1), 0.1)
    ([0.0, 0.06, 0.1], [0.0, 0.1])
    """
    return sorted({*grid, value})


def _tiles(split: EncodedSplit, rows: slice) -> Iterator[slice]:
    frames = split.videos.evidence.shape[1]
    return _slices(len(split.videos), max(1, TILE_ELEMENTS // ((rows.stop - rows.start) * frames)))


def _part(factors: VariantFactors, tile: slice) -> VariantFactors:
    return factors.map(lambda tensor: tensor[tile])


class _Collected:
    """Ranks, collected chunk by chunk."""

    def __init__(self, subject: Subject, bank: SentenceBank | None):
        self.subject = subject
        self.bank = {} if bank is None else bank.corrections
        self.ranks: dict[str, list[Tensor]] = {}
        self.sweeps: dict[str, dict[float, list[Tensor]]] = {}
        self.answers: dict[str, list[Answers]] = {}
        self.rivals: list[Rivals] = []

    def add(self, rows: slice, base: Tensor, parts: Mapping[str, Tensor]) -> None:
        subject, config = self.subject, self.subject.model.trace.config
        weight, eta = subject.fusion_weight, config.soft_weight
        truth = subject.dataset.query_video[rows].to(base.device)
        self._answer(rows, "base", base)
        if not parts:
            self.ranks.setdefault("base", []).append(ranks(base, truth).cpu())
            self.rivals.append(_rivals(base, base, torch.zeros_like(base), truth))
            return
        for variant in VARIANTS:
            evidence = variant.evidence(parts, eta)
            final = base if evidence is None else fuse(base, evidence, weight)
            self.ranks.setdefault(variant.key, []).append(ranks(final, truth).cpu())
        evidence = parts["route"] + eta * parts["soft"]
        final = fuse(base, evidence, weight)
        self._answer(rows, TRACE_VARIANT.key, final)
        self.rivals.append(_rivals(base, final, evidence, truth))
        strengths = with_value(GAMMAS, config.routing_strength)
        tried = {"λ": {value: (value, evidence) for value in with_value(LAMBDAS, weight)}}
        tried["γ"] = {value: (weight, parts[route_name(value)] + eta * parts["soft"]) for value in strengths}
        tried["η"] = {value: (weight, parts["route"] + value * parts["soft"]) for value in with_value(ETAS, eta)}
        for letter, values in tried.items():
            for value, (fusion, score) in values.items():
                place = self.sweeps.setdefault(letter, {}).setdefault(value, [])
                place.append(ranks(fuse(base, score, fusion), truth).cpu())

    def _answer(self, rows: slice, name: str, scores: Tensor) -> None:
        positives = self.subject.dataset.positives[rows]
        self.answers.setdefault(name, []).append(Answers.of(scores, positives))
        if name in self.bank:
            corrected = self.bank[name].apply(scores)
            self.answers.setdefault(f"{name}_bank", []).append(Answers.of(corrected, positives))
            truth = self.subject.dataset.query_video[rows].to(scores.device)
            self.ranks.setdefault(f"{name}_bank", []).append(ranks(corrected, truth).cpu())


def _rivals(base: Tensor, final: Tensor, evidence: Tensor, truth: Tensor) -> Rivals:
    own = truth[:, None]
    base_negative, negative = base.scatter(1, own, -torch.inf).max(1)
    after = final.gather(1, own).squeeze(1) - final.scatter(1, own, -torch.inf).amax(1)
    return Rivals(
        negative=negative,
        base_truth=base.gather(1, own).squeeze(1),
        base_negative=base_negative,
        trace_truth=evidence.gather(1, own).squeeze(1),
        trace_negative=evidence.gather(1, negative[:, None]).squeeze(1),
        margin_after=after,
    )


def _slices(count: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
