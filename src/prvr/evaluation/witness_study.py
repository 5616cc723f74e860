"""What a witness adds to a trained base, and what its controls add: ranks of a test split under every scoring.

Everything is chosen on the validation split: the weights λ and μ of every scoring, and nothing else. A control that is
trained (``pooled``) gets its own λ; one that breaks a trained witness (``shuffled``, ``uniform``) keeps the witness's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from prvr.data import Dataset
from prvr.scoring import encode_query_batches, ranks, recalls
from prvr.trace import WitnessConfig
from prvr.training import (
    TraceModel,
    WitnessMaterial,
    WitnessStage,
    fit_hubs,
    fit_weight,
    rescored,
    train_witness,
    witness_material,
    witness_scores,
)

# What may be left out or changed, by name: inputs of the witness, and changes of its stage.
WITNESS_ABLATIONS: dict[str, tuple[str, dict[str, object]]] = {
    "encoded": ("encoded", {}),
    "raw": ("raw", {}),
    "any-time": ("both", {"witness": WitnessConfig(time="any")}),
    "alone": ("both", {"witness": WitnessConfig(neighbours=0)}),
    "fused-loss": ("both", {"base_weight": 10.0}),
    "best-30": ("both", {"pool": 30}),
    "more-steps": ("both", {"steps": 4500}),
    "more-dropout": ("both", {"witness": WitnessConfig(dropout=0.5)}),
}


@dataclass
class WitnessStudy:
    """Ranks of the labelled video and of the best correct one, (Q,) by scoring; and the numbers behind them."""

    ranks: dict[str, Tensor] = field(default_factory=dict)
    any_ranks: dict[str, Tensor] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)  # SumR by scoring
    weights: dict[str, float] = field(default_factory=dict)  # λ or μ by scoring
    seconds: dict[str, float] = field(default_factory=dict)
    support: dict[str, float] = field(default_factory=dict)

    def summary(self) -> dict[str, Mapping[str, float]]:
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
        }


class WitnessExperiment:
    """One base, its splits, and every scoring that is tried on it.

    Args:
        model: the trained base.
        splits: its train, val and test splits, features on the model's device or not.
        stage: how witnesses are trained.
        seed: of the witnesses.
    """

    def __init__(self, model: TraceModel, splits: Mapping[str, Dataset], stage: WitnessStage, seed: int):
        self.model, self.splits, self.stage, self.seed = model, splits, stage, seed
        self.found = WitnessStudy()
        self.bank = encode_query_batches(model.backbone, splits["train"].query_batches())

    def run(self, ablations: Sequence[str] = ()) -> WitnessStudy:
        """Base, hubs, the witness with its controls, and some ablations."""
        material = self._timed("encoding", lambda: self._material("both"))
        val, test = material["val"], material["test"]
        zero = torch.zeros_like(val.candidates, dtype=val.base.dtype), torch.zeros_like(test.candidates).float()
        self._add("base", val, test, *zero, 0.0)
        hubs = fit_hubs(val)
        self.found.weights["hubs"] = hubs
        plain = {"": (val, test), "+hubs": (val.without_hubs(hubs), test.without_hubs(hubs))}
        self._add("hubs", *plain["+hubs"], *zero, 0.0)
        witness = self._timed("witness", lambda: train_witness(material["train"], self.stage, self.seed))
        for ending, (on_val, on_test) in plain.items():
            scores = [witness_scores(witness, part) for part in (on_val, on_test)]
            weight = fit_weight(on_val, scores[0])
            self._add(f"words{ending}", on_val, on_test, *scores, weight)
            self._break(witness, ending, on_test, weight)
            if ending:
                self._support(on_val, on_test, *scores, weight)
        self._pooled(material, plain)
        for name in ablations:
            self._ablate(name, material, hubs)
        return self.found

    def _material(self, inputs: str) -> dict[str, WitnessMaterial]:
        bank = {"train": None, "val": self.bank, "test": self.bank}
        return {
            split: witness_material(self.model, data, bank[split], inputs=inputs) for split, data in self.splits.items()
        }

    def _break(self, witness: torch.nn.Module, ending: str, test: WitnessMaterial, weight: float) -> None:
        """The same witness with other queries' words, and with all words and frames alike."""
        moved = torch.roll(torch.arange(len(test.words), device=test.device), 1 + len(test.words) // 2)
        other = test.with_words(test.words[moved], test.word_mask[moved])
        self._rank(f"shuffled{ending}", test, witness_scores(witness, other), weight)
        self._rank(f"uniform{ending}", test, witness_scores(witness, test, uniform=True), weight)

    def _pooled(
        self,
        material: Mapping[str, WitnessMaterial],
        plain: Mapping[str, tuple[WitnessMaterial, WitnessMaterial]],
    ) -> None:
        """A witness with the pooled query for its only word, trained the same way."""
        witness = train_witness(material["train"].with_one_word(), self.stage, self.seed)
        for ending, pair in plain.items():
            val, test = (part.with_one_word() for part in pair)
            scores = [witness_scores(witness, part) for part in (val, test)]
            self._add(f"pooled{ending}", val, test, *scores, fit_weight(val, scores[0]))

    def _ablate(self, name: str, material: Mapping[str, WitnessMaterial], hubs: float) -> None:
        inputs, changes = WITNESS_ABLATIONS[name]
        used = material if inputs == "both" else self._material(inputs)
        witness = train_witness(used["train"], replace(self.stage, **changes), self.seed)  # type: ignore[arg-type]
        val, test = (used[split].without_hubs(hubs) for split in ("val", "test"))
        scores = [witness_scores(witness, part) for part in (val, test)]
        self._add(f"{name}+hubs", val, test, *scores, fit_weight(val, scores[0]))

    def _add(
        self, name: str, val: WitnessMaterial, test: WitnessMaterial, on_val: Tensor, on_test: Tensor, weight: float
    ) -> None:
        self.found.weights.setdefault(name, weight)
        final = rescored(val, on_val, weight)
        self.found.validation[name] = recalls(ranks(final, self.splits["val"].query_video)).sum_r
        self._rank(name, test, on_test, weight)

    def _rank(self, name: str, test: WitnessMaterial, scores: Tensor, weight: float) -> None:
        final, data = rescored(test, scores, weight), self.splits["test"]
        self.found.ranks[name] = ranks(final, data.query_video).cpu()
        self.found.any_ranks[name] = ranks(final, data.positives).cpu()

    def _support(
        self, val: WitnessMaterial, test: WitnessMaterial, on_val: Tensor, on_test: Tensor, weight: float
    ) -> None:
        """How often the first answer is correct, where its words are explained better than usual and where not."""
        _, usual = _first_answers(val, on_val, weight)
        first, height = _first_answers(test, on_test, weight)
        supported = height > usual.median()
        data = self.splits["test"]
        correct = torch.tensor(
            [video in known for video, known in zip(first.tolist(), data.positives, strict=True)], device=test.device
        )
        self.found.support = {
            "share supported": float(supported.float().mean()),
            "P(correct | supported)": float(correct[supported].float().mean()),
            "P(correct | unsupported)": float(correct[~supported].float().mean()),
        }

    def _timed(self, name: str, work):  # type: ignore[no-untyped-def]
        began = time.perf_counter()
        made = work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.found.seconds[name] = time.perf_counter() - began
        return made


def _first_answers(material: WitnessMaterial, scores: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """Each query's first video (Q,), and how far its S_words is above those of the other candidates, in deviations."""
    place = (material.base.gather(1, material.candidates) + weight * scores).argmax(1, keepdim=True)
    height = (scores - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True).clamp(min=1e-9)
    return material.candidates.gather(1, place).squeeze(1), height.gather(1, place).squeeze(1)
