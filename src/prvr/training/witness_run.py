"""The witness of a run: trained after its base, stored next to its weights, and used wherever the run ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import NamedTuple

import torch
from torch import Tensor

from prvr.backbones import Backbone
from prvr.data import Dataset
from prvr.errors import Interrupted
from prvr.scoring import encode_query_batches
from prvr.tokens import QueryBatch, VideoBatch, VideoTokens
from prvr.trace import Witness, WitnessConfig, WordEvidence, hub_offset
from prvr.training.model import TraceModel
from prvr.training.precision import uses_bf16
from prvr.training.run import WITNESS, Run
from prvr.training.witness import (
    CANDIDATES,
    HUB_COUNT,
    joined_inputs,
    query_bank,
    train_witness,
    witness_material,
    witness_scores,
    word_inputs,
)
from prvr.training.witness_fusion import fit_hubs, fit_weight, rescored, rescored_sum_r

_FORMER_CANDIDATES = 50  # of witnesses that were stored without their number


class WitnessScores(NamedTuple):
    """Scores of a split, (Q, V)."""

    hubs: Tensor  # S_base − μ·h: without any word
    final: Tensor


@dataclass(frozen=True)
class FittedWitness:
    """A witness with everything that re-scoring needs: ``S = S_base − μ·h``, then ``+ λ·S_words`` among the best."""

    witness: Witness
    words: float  # λ
    hubs: float  # μ
    bank: Tensor  # (B, D) training queries, for h
    inputs: str
    candidates: int = CANDIDATES

    @torch.no_grad()
    def scores(self, model: TraceModel, dataset: Dataset) -> WitnessScores:
        """Score a split."""
        material = witness_material(model, dataset, self.bank, candidates=self.candidates, inputs=self.inputs)
        material = material.without_hubs(self.hubs)
        return WitnessScores(material.base, rescored(material, witness_scores(self.witness, material), self.words))

    @torch.no_grad()
    def hub_offset(self, backbone: Backbone, videos: VideoTokens) -> Tensor:
        """h of videos, (V,)."""
        return hub_offset(backbone.base_score(self.bank, videos), HUB_COUNT)

    @torch.no_grad()
    def read_words(self, backbone: Backbone, queries: QueryBatch) -> tuple[Tensor, Tensor]:
        """Unit words (Q, L, D) and their weights α (Q, L)."""
        return self.witness.read_words(word_inputs(backbone, queries, self.inputs), queries.mask.bool())

    @torch.no_grad()
    def read_frames(self, tokens: VideoTokens, frames: Tensor, mask: Tensor) -> Tensor:
        """Unit frames (V, M, D).

        Args:
            tokens: what the base made of the videos, at least M frames of each.
            frames: the features that it was given, (V, M, Dv).
            mask: of these, (V, M).
        """
        inputs = joined_inputs(tokens.frames[:, : frames.shape[1]].float(), frames, self.inputs)
        return self.witness.read_frames(inputs, mask.bool())

    @torch.no_grad()
    def evidence(self, model: TraceModel, query: QueryBatch, video: VideoBatch) -> WordEvidence:
        """What the words of one query see in one video: shapes (1, 1, …)."""
        tokens = model.backbone.encode_video_batch(video)
        frames = self.read_frames(tokens, video.frames, video.frame_mask)
        words, weights = self.read_words(model.backbone, query)
        return self.witness.compare(words, weights, frames[:, None], video.frame_mask.bool()[:, None])


def fit_run_witness(
    run: Run,
    train: Dataset,
    validation: Dataset,
    device: torch.device,
    *,
    progress: bool = False,
    stop: Interrupted | None = None,
) -> FittedWitness:
    """Train a run's witness as its configuration says, choose what validation decides, and store it in the run."""
    config = run.config
    model, _ = run.load_model(device=device)
    bank = query_bank(encode_query_batches(model.backbone, train.query_batches())).rows
    dtype = torch.bfloat16 if uses_bf16(run, device) else torch.float32

    def train_on(inputs: str) -> Witness:  # what it learns from fills memory, and is gone when this returns
        material = witness_material(model, train, inputs=inputs, alike=config.alike, dtype=dtype)
        label = f"training the witness ({inputs}, {choices.index(inputs) + 1} of {len(choices)})" if progress else ""
        return train_witness(material, config.witness_stage, config.seed, progress=label, stop=stop)

    choices = config.witness_stage.inputs_for(model.backbone)
    tried = [_fitted(train_on(inputs), model, validation, bank, inputs) for inputs in choices]
    best, _ = max(tried, key=itemgetter(1))
    save_run_witness(run, best)
    return best


def _fitted(
    witness: Witness, model: TraceModel, validation: Dataset, bank: Tensor, inputs: str
) -> tuple[FittedWitness, float]:
    """A trained witness with the weights that rank the validation split best, and the SumR of that."""
    held = witness_material(model, validation, bank, inputs=inputs)
    hubs = fit_hubs(held)
    held = held.without_hubs(hubs)
    scores = witness_scores(witness, held)
    words = fit_weight(held, scores)
    return FittedWitness(witness, words, hubs, bank, inputs), rescored_sum_r(held, scores, words)


def save_run_witness(run: Run, fitted: FittedWitness) -> None:
    """Store a witness next to a run's weights."""
    witness = fitted.witness
    widths = {"word_width": witness.word.in_features, "frame_width": witness.frame.in_features}
    widths["shared"] = witness.shared
    weights = {"words": fitted.words, "hubs": fitted.hubs, "inputs": fitted.inputs, "candidates": fitted.candidates}
    tensors = {**witness.state_dict(), "bank": fitted.bank.half()}
    run.save_weights(WITNESS, tensors, **widths, config=asdict(witness.config), **weights)


def load_run_witness(run: Run, device: torch.device | str = "cpu") -> FittedWitness | None:
    """A run's witness; None where it has none."""
    if not run.has_weights(WITNESS):
        return None
    tensors, about = run.weights(WITNESS)
    bank = tensors.pop("bank").float()
    widths = about["word_width"], about["frame_width"]
    witness = Witness(*widths, WitnessConfig(**about["config"]), about["shared"])
    witness.load_state_dict(tensors)
    inputs, candidates = about.get("inputs", "both"), int(about.get("candidates", _FORMER_CANDIDATES))
    return FittedWitness(witness.to(device).eval(), about["words"], about["hubs"], bank.to(device), inputs, candidates)
