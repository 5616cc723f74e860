"""What a witness adds to a trained base, and what its controls add: ranks of a test split under every scoring.

Everything is chosen on the validation split: the weights λ and μ of every scoring, and nothing else. A control that
breaks a trained witness is ranked twice: with the witness's λ (``shuffled``, ``uniform``), and with a λ of its own
(``shuffled-own``, ``uniform-own``), because it may have other sizes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from prvr.data import Dataset
from prvr.files import whole_file
from prvr.scoring import encode_query_batches, ranks, recalls
from prvr.trace import Witness, WitnessConfig
from prvr.training import (
    TraceModel,
    WitnessMaterial,
    WitnessStage,
    fit_hubs,
    fit_query_weights,
    fit_weight,
    multiplies_bf16,
    rescored,
    rescored_sum_r,
    split_scores,
    train_witness,
    witness_material,
    witness_scores,
)

# What may be changed, by name: settings of the stage.
WITNESS_ABLATIONS: dict[str, dict[str, object]] = {
    "encoded": {"inputs": "encoded"},
    "any-time": {"witness": WitnessConfig(time="any")},
    "alone": {"witness": WitnessConfig(neighbours=0)},
    "fused-loss": {"base_weight": 10.0},
    "best-30": {"pool": 30},
    "best-400": {"pool": 400},
    "any-wrong": {"pool": 1_000_000},  # any wrong video instead of near misses
    "more-steps": {"steps": 4500},
    "more-dropout": {"witness": WitnessConfig(dropout=0.5)},
    "wider": {"witness": WitnessConfig(width=768, hidden=768)},
}

_MORE = 100  # candidates, as a second number of them
_LEAD = "lead of the base"  # how sure the base is of its first answer, which no witness is needed for


@dataclass
class WitnessStudy:
    """Ranks of the labelled video and of the best correct one, (Q,) by scoring; and the numbers behind them."""

    ranks: dict[str, Tensor] = field(default_factory=dict)
    any_ranks: dict[str, Tensor] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)  # SumR by scoring
    weights: dict[str, float] = field(default_factory=dict)  # λ or μ by scoring
    seconds: dict[str, float] = field(default_factory=dict)
    support: dict[str, float | str] = field(default_factory=dict)
    inputs: str = ""  # that validation chose

    def summary(self) -> dict[str, Mapping[str, float | str] | str]:
        """Plain numbers, ready for JSON."""
        found = {name: recalls(column).sum_r for name, column in self.ranks.items()}
        several = {name: recalls(column).sum_r for name, column in self.any_ranks.items()}
        return {
            "test": found,
            "test, any correct": several,
            "validation": self.validation,
            "weights": self.weights,
            "seconds": self.seconds,
            "support": self.support,
            "inputs": self.inputs,
        }


class _Held(NamedTuple):
    """The two splits that a witness does not learn from."""

    val: WitnessMaterial
    test: WitnessMaterial

    def without_hubs(self, weight: float) -> _Held:
        return _Held(self.val.without_hubs(weight), self.test.without_hubs(weight))

    def with_candidates(self, count: int) -> _Held:
        return _Held(self.val.with_candidates(count), self.test.with_candidates(count))

    def with_one_word(self) -> _Held:
        return _Held(self.val.with_one_word(), self.test.with_one_word())

    def with_other_words(self) -> _Held:
        """Every query has the words of another one."""

        def moved(part: WitnessMaterial) -> WitnessMaterial:
            rows = torch.roll(torch.arange(len(part.words), device=part.device), 1 + len(part.words) // 2)
            return part.with_words(part.words[rows], part.word_mask[rows])

        return _Held(moved(self.val), moved(self.test))

    def with_other_hubs(self) -> _Held:
        """Every video has the hub offset of another one."""
        val, test = (replace(part, hubs=part.hubs.roll(1 + len(part.hubs) // 2)) for part in self)
        return _Held(val, test)

    def reading(self, other: _Held) -> _Held:
        """The same ranking, read with what another pair reads."""

        def changed(part: WitnessMaterial, source: WitnessMaterial) -> WitnessMaterial:
            return replace(source, base=part.base, candidates=part.candidates)

        return _Held(changed(self.val, other.val), changed(self.test, other.test))

    def plus(self, scores: _HeldScores, weight: float) -> _Held:
        """The same candidates, ranked with a second score of theirs."""
        val, test = (replace(part, base=rescored(part, some, weight)) for part, some in zip(self, scores, strict=True))
        return _Held(val, test)


class _HeldScores(NamedTuple):
    """S_words of their candidates."""

    val: Tensor  # (Q, K)
    test: Tensor

    @staticmethod
    def of(witness: Witness, held: _Held, *, uniform: bool = False) -> _HeldScores:
        return _HeldScores(*(witness_scores(witness, part, uniform=uniform) for part in held))

    @staticmethod
    def none(held: _Held) -> _HeldScores:
        return _HeldScores(*(torch.zeros_like(part.candidates, dtype=part.base.dtype) for part in held))


class _Reader(NamedTuple):
    """A witness of some inputs, with what it learned from and what it is judged on."""

    witness: Witness
    train: WitnessMaterial
    held: _Held


class WitnessExperiment:
    """One base, its splits, and every scoring that is tried on it.

    Args:
        model: the trained base.
        splits: its train, val and test splits, features on the model's device or not.
        stage: how witnesses are trained.
        seed: of the witnesses.
        alike: cosine of queries from which on they learn nothing from each other's videos; 0: as in all papers.
        kept: a folder of this base: trained witnesses are kept there, and not trained again by another experiment.
        pooled: whether to train the control that reads the pooled query in place of its words.
    """

    def __init__(
        self,
        model: TraceModel,
        splits: Mapping[str, Dataset],
        stage: WitnessStage,
        seed: int,
        alike: float = 0.0,
        kept: Path | None = None,
        pooled: bool = True,
    ):
        self.model, self.splits, self.stage, self.seed, self.alike = model, splits, stage, seed, alike
        self.kept, self.pooled = kept, pooled
        self.found = WitnessStudy()
        self.bank = encode_query_batches(model.backbone, splits["train"].query_batches())

    def run(self, ablations: Sequence[str] = ()) -> WitnessStudy:
        """Base, hubs, the witness with its controls, and some ablations."""
        readers = self._readers()
        held = next(iter(readers.values())).held
        hubs = self._base(held)
        other = held.with_other_hubs()
        self._plain("other-hubs", other, fit_hubs(other.val))
        chosen = self._choose(readers, hubs)
        stage = replace(self.stage, inputs=chosen)  # type: ignore[arg-type]
        witness, train, held = readers[chosen]
        del readers  # the others fill memory
        corrected = held.without_hubs(hubs)
        pooled = self._witness(train.with_one_word(), stage, f"{chosen}-pooled") if self.pooled else None
        for ending, pair in (("", held), ("+hubs", corrected)):
            scores = _HeldScores.of(witness, pair)
            weight = fit_weight(pair.val, scores.val)
            self._add(f"words{ending}", pair, scores, weight)
            self._break(witness, ending, pair, weight)
            if pooled is not None:
                self._fit(f"pooled{ending}", pooled, pair.with_one_word())
        self._support(witness, corrected, scores, weight)
        each = fit_query_weights(corrected.val, scores.val)  # λ_q instead of one λ
        weighed = _HeldScores(each(corrected.val) * scores.val, each(corrected.test) * scores.test)
        self._add("query-weights+hubs", corrected, weighed, 1.0)
        self._fit(f"candidates-{_MORE}+hubs", witness, corrected.with_candidates(_MORE))
        for name in ablations:
            changed = replace(stage, **WITNESS_ABLATIONS[name])  # type: ignore[arg-type]
            own, other = (train, held) if changed.inputs == chosen else self._material(changed.inputs)
            self._fit(f"{name}+hubs", self._witness(own, changed, name), other.without_hubs(hubs))
        return self.found

    def base_alone(self) -> WitnessStudy:
        """The base and the hub offset, without any witness."""
        self._base(self._held())
        return self.found

    def beside(self, others: Sequence[TraceModel]) -> WitnessStudy:
        """Controls: more bases in place of the witness, and the witness on top of the first of them.

        Each reads the same candidates, and is added with a weight of its own, one after the other. A stage without
        steps trains no witness.
        """
        readers = self._readers() if self.stage.steps else {}
        held = next(iter(readers.values())).held if readers else self._held()
        corrected = held.without_hubs(self._base(held))
        scores = [
            [split_scores(o, self.splits[split], use_trace=False).base for split in ("val", "test")] for o in others
        ]
        self._better(held, *scores[0])
        for ending, start in (("", held), ("+hubs", corrected)):
            pair = start
            for name, every in zip(("second-base", "third-base"), scores, strict=False):
                added = _HeldScores(*(some.gather(1, part.candidates) for some, part in zip(every, pair, strict=True)))
                weight = fit_weight(pair.val, added.val)
                self._add(f"{name}{ending}", pair, added, weight)
                pair = pair.plus(added, weight)
                if readers and name == "second-base" and ending:
                    self._on_top(name, readers, pair)
        return self.found

    def _better(self, held: _Held, val: Tensor, test: Tensor) -> None:
        """Of two bases the one that ranks validation better, and nothing of the other: is a gain more than luck?"""
        own, other = (recalls(ranks(scores, held.val.truth)).sum_r for scores in (held.val.base, val))
        best, data = test if other > own else held.test.base, self.splits["test"]
        self.found.validation["better-base"] = max(own, other)
        self.found.ranks["better-base"] = ranks(best, data.query_video).cpu()
        self.found.any_ranks["better-base"] = ranks(best, data.positives).cpu()

    def _on_top(self, name: str, readers: Mapping[str, _Reader], both: _Held) -> None:
        """The witness on top of two bases, and one of the pooled query, with the inputs chosen for one base."""
        inputs = self._choose(readers, self.found.weights["hubs"])
        witness, train, held = readers[inputs]
        pair = both.reading(held)
        self._fit(f"{name}+words+hubs", witness, pair)
        if self.pooled:
            stage = replace(self.stage, inputs=inputs)  # type: ignore[arg-type]
            pooled = self._witness(train.with_one_word(), stage, f"{inputs}-pooled")
            self._fit(f"{name}+pooled+hubs", pooled, pair.with_one_word())

    def _base(self, held: _Held) -> float:
        """Rank with the base alone, and without hubs. Returns μ."""
        self._plain("base", held, 0.0)
        hubs = fit_hubs(held.val)
        self._plain("hubs", held, hubs)
        return hubs

    def _plain(self, name: str, held: _Held, hubs: float) -> None:
        """Rank with the base and a hub offset alone."""
        self.found.weights[name] = hubs
        self._add(name, held.without_hubs(hubs), _HeldScores.none(held), 0.0)

    def _readers(self) -> dict[str, _Reader]:
        """A witness for each of the inputs that validation chooses from."""
        return {inputs: self._train(inputs) for inputs in self.stage.inputs_for(self.model.backbone)}

    def _train(self, inputs: str) -> _Reader:
        with self._timed("encoding"):
            train, held = self._material(inputs)
        with self._timed("witness"):
            stage = replace(self.stage, inputs=inputs)  # type: ignore[arg-type]
            witness = self._witness(train, stage, inputs)
        return _Reader(witness, train, held)

    def _witness(self, material: WitnessMaterial, stage: WitnessStage, name: str) -> Witness:
        """A trained witness: a kept one, if there is one of the same name and settings."""
        if self.kept is None:
            return train_witness(material, stage, self.seed)
        settings = hashlib.sha256(repr((stage, self.seed, self.alike)).encode()).hexdigest()[:12]
        file = self.kept / f"{name}-{settings}.safetensors"
        if not file.exists():
            self.kept.mkdir(parents=True, exist_ok=True)
            trained = train_witness(material, stage, self.seed)
            with whole_file(file) as beside:
                save_file(trained.state_dict(), beside)
            return trained
        witness = Witness(material.words.shape[-1], material.frames.shape[-1], stage.witness, material.shared)
        witness.load_state_dict(load_file(file))
        return witness.to(material.device).eval()

    def _choose(self, readers: Mapping[str, _Reader], hubs: float) -> str:
        """The inputs with which the validation split is ranked best."""
        if len(readers) > 1:
            for inputs, reader in readers.items():
                self._fit(f"{inputs}+hubs", reader.witness, reader.held.without_hubs(hubs))
        self.found.inputs = max(readers, key=lambda inputs: self.found.validation.get(f"{inputs}+hubs", 0.0))
        return self.found.inputs

    def _material(self, inputs: str) -> tuple[WitnessMaterial, _Held]:
        dtype = torch.bfloat16 if multiplies_bf16(self.bank.device) else torch.float32
        train = witness_material(self.model, self.splits["train"], inputs=inputs, alike=self.alike, dtype=dtype)
        return train, self._held(inputs)

    def _held(self, inputs: str = "raw") -> _Held:
        read = (witness_material(self.model, self.splits[split], self.bank, inputs=inputs) for split in ("val", "test"))
        return _Held(*read)

    def _break(self, witness: Witness, ending: str, held: _Held, weight: float) -> None:
        """The same witness with other queries' words, and with all words and frames alike."""
        broken = {
            "shuffled": _HeldScores.of(witness, held.with_other_words()),
            "uniform": _HeldScores.of(witness, held, uniform=True),
        }
        for name, scores in broken.items():
            self._add(f"{name}{ending}", held, scores, weight)
            self._add(f"{name}-own{ending}", held, scores, fit_weight(held.val, scores.val))

    def _fit(self, name: str, witness: Witness, held: _Held) -> None:
        """A trained witness with its own λ."""
        scores = _HeldScores.of(witness, held)
        self._add(name, held, scores, fit_weight(held.val, scores.val))

    def _add(self, name: str, held: _Held, scores: _HeldScores, weight: float) -> None:
        self.found.weights.setdefault(name, weight)
        self.found.validation[name] = rescored_sum_r(held.val, scores.val, weight)
        self._rank(name, held.test, scores.test, weight)

    def _rank(self, name: str, test: WitnessMaterial, scores: Tensor, weight: float) -> None:
        final, data = rescored(test, scores, weight), self.splits["test"]
        self.found.ranks[name] = ranks(final, data.query_video).cpu()
        self.found.any_ranks[name] = ranks(final, data.positives).cpu()

    def _support(self, witness: Witness, held: _Held, scores: _HeldScores, weight: float) -> None:
        """How often the first answer is correct, where its words are explained better than usual and where not.

        Validation chooses how *explained* is read, and what is usual: the median. How much the base's first answer
        leads, which needs no witness, is read beside it.
        """
        val, test = (
            _FirstAnswers.of(part, some, weight, witness.log_scale.exp().item())
            for part, some in zip(held, scores, strict=True)
        )
        usual = {name: float(values.median()) for name, values in val.readings.items()}
        known = {name: val.shares(name, usual[name], self.splits["val"].positives) for name in usual}
        best = max((name for name in known if name != _LEAD), key=lambda name: known[name].difference)
        found = {name: test.shares(name, usual[name], self.splits["test"].positives) for name in usual}
        self.found.support = found[best]._asdict() | {"reading": best}
        self.found.support |= {name: found[name].difference for name in found}

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.found.seconds[name] = self.found.seconds.get(name, 0.0) + time.perf_counter() - began


class _Shares(NamedTuple):
    """Of first answers: the share that is supported, and how often either kind is correct."""

    supported: float
    correct_if_supported: float
    correct_if_not: float

    @property
    def difference(self) -> float:
        return self.correct_if_supported - self.correct_if_not


class _FirstAnswers(NamedTuple):
    """Each query's first video (Q,), and how well its words are explained there, (Q,) by reading."""

    videos: Tensor
    readings: dict[str, Tensor]

    @staticmethod
    def of(material: WitnessMaterial, scores: Tensor, weight: float, scale: float) -> _FirstAnswers:
        first = (material.base.gather(1, material.candidates) + weight * scores).argmax(1, keepdim=True)
        own = scores.gather(1, first)
        best = material.base.topk(2, dim=1).values
        lead = best[:, :1] - best[:, 1:]
        readings = {
            "deviations above the candidates": (own - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True),
            "probability among the candidates": (scale * scores).log_softmax(1).gather(1, first),
            "place among the candidates": -(scores > own).sum(1, keepdim=True).float(),
            _LEAD: lead,
        }
        return _FirstAnswers(
            material.candidates.gather(1, first).squeeze(1),
            {name: values.nan_to_num().squeeze(1) for name, values in readings.items()},
        )

    def shares(self, reading: str, usual: float, positives: Sequence[Sequence[int]]) -> _Shares:
        supported = (self.readings[reading] > usual).cpu()
        right = [video in rows for video, rows in zip(self.videos.tolist(), positives, strict=True)]
        correct = torch.tensor(right).float()
        yes, no = (float(correct[some].mean()) if some.any() else 0.0 for some in (supported, ~supported))
        return _Shares(float(supported.float().mean()), yes, no)
