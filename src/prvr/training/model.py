"""Backbone and TRACE as one trainable model: it takes a batch and returns loss terms."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from prvr.backbones import Backbone, build
from prvr.losses import LEFT_OUT, also_described, info_nce, pick_negatives, triplet
from prvr.tokens import TrainBatch
from prvr.trace import Trace
from prvr.training.config import ConfigError, TraceStage, TrainConfig
from prvr.training.distributed import gather_encoded
from prvr.training.schedule import PhaseEpoch, fusion_weight


class TraceModel(nn.Module):
    """A backbone with TRACE on top.

    The forward pass computes the whole training objective, so that the model can be wrapped for several processes.
    ``bf16`` (run the backbone in bf16) and ``world`` (number of processes) are set by the trainer.
    """

    def __init__(self, backbone: Backbone, trace: Trace, stage: TraceStage):
        super().__init__()
        self.backbone, self.trace, self.stage = backbone, trace, stage
        self.bf16 = False
        self.world = 1
        self.alike = 0.0
        self.usual_meaning: Tensor | None = None  # (Dq,) what all training queries have in common; set by the trainer

    @staticmethod
    def from_config(config: TrainConfig) -> TraceModel:
        """A new model. Raises ``ConfigError`` where method and settings do not fit together."""
        try:
            backbone = build(config.method, config.model)
        except ValueError as error:
            raise ConfigError(f"{config.method} cannot be built with these settings: {error}") from None
        if not backbone.trainable and config.epochs > 0:
            raise ConfigError(
                f"{config.method} has nothing to train: leave both phases out (--backbone-stage.epochs 0 "
                "--trace-stage.epochs 0), and try `prvr transfer` on the run"
            )
        if not backbone.separable and config.trace_stage.epochs > 0:
            raise ConfigError(
                f"{config.method} scores each query–video pair separately, so TRACE has no tokens to work on: "
                "train it alone (--trace-stage.epochs 0)"
            )
        if not backbone.has_registers and config.trace.anchors == "registers" and config.trace_stage.epochs > 0:
            raise ConfigError(
                f"{config.method} has no registers for TRACE to activate: pool some from its tokens (--trace.anchors "
                "hybrid), or train it alone (--trace-stage.epochs 0) and try `prvr transfer` on it"
            )
        if config.witness_stage.steps and not backbone.has_words:
            raise ConfigError(f"{config.method} has no words for a witness to read: leave out --witness-stage.steps")
        if config.witness_stage.steps and not config.witness_stage.inputs_for(backbone):
            raise ConfigError(
                f"{config.method} makes one vector of all frames, which a witness cannot read one by one: use "
                "--witness-stage.inputs raw"
            )
        if config.trace_stage.fused_base and not backbone.takes_residual:
            raise ConfigError(f"the losses of {config.method} take no evidence: leave out --trace-stage.fused-base")
        model = TraceModel(backbone, Trace(backbone.width, config.trace), config.trace_stage)
        model.alike = config.alike
        if config.alike and not backbone.takes_residual:
            raise ConfigError(f"the losses of {config.method} cannot leave pairs out: drop --alike")
        return model

    def enter(self, now: PhaseEpoch) -> None:
        """Choose what learns in this phase. A frozen backbone also runs without dropout."""
        learns = now.phase != "frozen"
        self.backbone.train(learns)
        for name, parameter in self.backbone.named_parameters():
            parameter.requires_grad_(learns and not name.startswith(self.backbone.untrained))
        self.trace.requires_grad_(now.uses_trace)

    def forward(
        self, batch: TrainBatch, now: PhaseEpoch, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Loss terms, already weighted; their sum is the loss."""
        with torch.set_grad_enabled(now.phase != "frozen"), self._autocast(batch.labels.device):
            encoded = self.backbone.encode_batch(batch)
        if self.alike and self.usual_meaning is not None:
            meanings = batch.queries.meanings(self.usual_meaning)
            encoded = replace(encoded, per_query={**encoded.per_query, "meanings": meanings})
        encoded = gather_encoded(encoded, self.world)
        terms: dict[str, Tensor] = {}
        evidence = self.trace(encoded.queries.float(), encoded.videos.to(torch.float32)) if now.uses_trace else None
        added = []
        if evidence is not None and self.stage.fused_base:
            added.append(fusion_weight(now.trace_epoch, self.trace.config.fusion_weight, self.stage) * evidence)
        if "meanings" in encoded.per_query:
            meanings, labels = encoded.per_query["meanings"], encoded.labels
            left_out = LEFT_OUT * also_described(meanings, self.alike, labels, len(encoded.videos))
            added.append(left_out)
            evidence = None if evidence is None else evidence + left_out
        if added:
            encoded = replace(encoded, residual=torch.stack(added).sum(0))
        if now.phase != "frozen":
            weights = self.backbone.loss_weights
            raw = self.backbone.objective(encoded, epoch=now.epoch, generator=generator)
            terms |= {name: weights[name] * value for name, value in raw.items()}
        if evidence is not None:
            terms |= self._evidence_terms(evidence, encoded.labels, now, generator)
        return terms

    def _evidence_terms(
        self, scores: Tensor, labels: Tensor, now: PhaseEpoch, generator: torch.Generator | None
    ) -> dict[str, Tensor]:
        stage, pool = self.stage, self.backbone.config.pool_at(now.epoch)
        negatives = pick_negatives(scores, labels, hard_pool=pool, generator=generator)
        return {
            "trace_nce": stage.weight_nce * info_nce(scores, labels, stage.contrast_temperature),
            "trace_triplet": stage.weight_triplet * triplet(scores, labels, stage.margin, negatives),
        }

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.bf16)
