"""DreamPRVR: registers imagined by a short diffusion, then Gaussian attention that may read them.

Reading order: ``encode_queries`` (words → one vector), ``imagine`` (clips → registers), ``encode_videos`` (clips and
frames through a register-augmented bank), ``objective`` (its eight loss terms).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.base import Encoded
from prvr.backbones.blocks.aggregation import BankAggregation
from prvr.backbones.blocks.attention import AttentionBank, CrossAttention
from prvr.backbones.blocks.diffusion import RegisterDiffusion
from prvr.backbones.blocks.inputs import Projection
from prvr.backbones.blocks.official import OfficialKey, renamed, under
from prvr.backbones.blocks.variational import VariationalSampler
from prvr.backbones.registry import register
from prvr.backbones.two_branch import TwoBranch, TwoBranchConfig, shared_settings, video_tokens
from prvr.losses import query_similarity
from prvr.tokens import TrainBatch, VideoTokens

_SETTINGS = {  # the authors' names -> ours
    "num_registers": "registers",
    "timesteps": "diffusion_steps",
    "num_diffusion_layers": "denoiser_layers",
    "deterministic_tau": "similarity_temperature",
    "perturbation_scale": "perturbation",
}


@dataclass(frozen=True)
class DreamPRVRConfig(TwoBranchConfig):
    """Defaults are the Charades-STA configuration of the DreamPRVR release."""

    registers: int = 6
    """registers R"""
    diffusion_steps: int = 10
    """steps T of the truncated diffusion"""
    denoiser_layers: int = 2
    """layers of the denoiser"""
    similarity_temperature: float = 0.01
    """τ of the query similarity loss"""
    perturbation: float = 0.1
    """scale of the textual perturbation"""
    weight_similarity: float = 2e-3
    """loss weight: query similarity"""
    weight_kl: float = 1e-4
    """loss weight: KL of the video's latent"""
    weight_denoise: float = 1e-3
    """loss weight: noise prediction"""


class RegisterBank(nn.Module):
    """Register-augmented Gaussian attention: a bank whose tokens also read the registers, then its aggregation."""

    def __init__(self, config: DreamPRVRConfig, length: int):
        super().__init__()
        windows = [None] + [2.0 ** (k - 3) for k in range(1, config.blocks)]  # none, 1/4, 1/2, 1, 2, …
        self.bank = AttentionBank(config.width, config.heads, windows, length, config.dropout)
        self.aggregate = BankAggregation(config.width, config.heads, length, config.dropout, config.block_temperature)
        self.register_input = Projection(config.width, config.width, config.dropout)

    def forward(self, x: Tensor, registers: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.aggregate(self.bank(x, mask, self.register_input(registers)), mask)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        blocks = [f"{prefix}.e_attns.{k}" for k in range(self.bank.blocks)]
        keys = under("bank", self.bank.official_keys(blocks))
        keys |= under("aggregate", self.aggregate.official_keys(prefix))
        return keys | under("register_input", self.register_input.official_keys(f"{prefix}.noise_input_layer"))


class Imagined(NamedTuple):
    """The output of the register generator for a video."""

    registers: Tensor  # (V, R, D), every entry in [−1, 1]
    mean: Tensor  # (V, D) unit length
    log_variance: Tensor  # (V, D)
    condition: Tensor  # (V, R, D)


@register
class DreamPRVR(TwoBranch):
    """The backbone TRACE is built on."""

    method = "dreamprvr"
    title, year = "DreamPRVR", 2026
    has_registers = True
    untrained = ("diffusion.denoiser.time_table",)
    compiled = (
        *TwoBranch.compiled,
        "context_encoder",
        "register_reader",
        "sampler",
        "diffusion.denoiser.context",
        "diffusion.step_back",
        "denoising_error",
    )
    config_type = DreamPRVRConfig
    config: DreamPRVRConfig
    clip_encoder: RegisterBank
    frame_encoder: RegisterBank

    def __init__(self, config: DreamPRVRConfig):
        super().__init__(config)
        c = config
        self.context_encoder = AttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.register_queries = nn.Parameter(torch.empty(1, c.registers, c.width))
        self.register_reader = CrossAttention(c.width, c.heads, c.dropout)
        self.sampler = VariationalSampler(c.width, c.clips)
        self.diffusion = RegisterDiffusion(c.width, c.diffusion_steps, c.denoiser_layers)
        self.clip_encoder = RegisterBank(c, c.clips)
        self.frame_encoder = RegisterBank(c, c.frames)
        self.initialise()

    def initialise(self) -> None:
        super().initialise()
        nn.init.normal_(self.diffusion.denoiser.time_table, std=self.config.init_std)
        nn.init.normal_(self.register_queries)
        for name, parameter in self.sampler.pool.gru.named_parameters():
            if "weight_ih" in name:
                nn.init.xavier_uniform_(parameter)
            elif "weight_hh" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    # -- encoding -----------------------------------------------------------------------------------------------------

    def imagine(self, clip_tokens: Tensor) -> Imagined:
        """Embedded clips (V, C, D) → registers, always in float32: the chain multiplies its input by up to 204."""
        context = self.context_encoder(clip_tokens)[0]
        with torch.autocast(context.device.type, enabled=False):
            context = context.to(self.register_queries.dtype)
            condition = self.register_reader(self.register_queries.expand(len(context), -1, -1), context)
            mean, log_variance = self.sampler(context)
            noise = mean[:, None].repeat(1, condition.shape[1], 1)  # not a view: one layout for all steps of the chain
            registers = self.diffusion.generate(noise, condition)
        return Imagined(registers, mean, log_variance, condition)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        return self._encode_videos(frames, frame_mask, clips)[0]

    def _encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> tuple[VideoTokens, Imagined]:
        clip_tokens, frame_tokens, frame_mask = self.embed_videos(frames, frame_mask, clips)
        imagined = self.imagine(clip_tokens)
        encoded_clips = self.clip_encoder(clip_tokens, imagined.registers)
        given = frame_mask[:, : max(1, frames.shape[1])]  # slots beyond the batch's longest video hold nothing to read
        encoded_frames = self.frame_encoder(frame_tokens, imagined.registers, given)
        return video_tokens(encoded_frames, frame_mask, encoded_clips, imagined.registers), imagined

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        scored, shaped = self.encode_queries_twice(batch.queries.tokens, batch.queries.mask)
        videos, imagined = self._encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        with torch.autocast(shaped.device.type, enabled=False):
            target = self.perturb(self.mean_query(shaped.float(), batch.labels, len(videos)))
        per_video = {
            "kl": kl_to_standard_normal(imagined.mean, imagined.log_variance),
            "denoise": self.denoising_error(target, imagined.mean, imagined.condition),
        }
        return Encoded(scored, batch.labels, videos, {"shaped": shaped}, per_video)

    @staticmethod
    def mean_query(queries: Tensor, labels: Tensor, videos: int) -> Tensor:
        """Mean of each video's queries, (N, D) → (V, D); padding (label −1) is left out."""
        owner = (labels[None, :] == torch.arange(videos, device=labels.device)[:, None]).to(queries.dtype)  # (V, N)
        return owner @ queries / owner.sum(1, keepdim=True).clamp(min=1)

    def perturb(self, mean_query: Tensor, draws: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """The diffusion's target: R jittered copies of the normalised mean query, (V, D) → (V, R, D).

        The jitter's scale follows the vector's own spread and carries no gradient; the normalised query does.
        """
        shape = (len(mean_query), self.config.registers, mean_query.shape[1])
        if draws is None:
            draws = (torch.randn(shape, device=mean_query.device), torch.randn(shape, device=mean_query.device))
        with torch.no_grad():
            spread = self.config.perturbation * mean_query.std(-1, keepdim=True)[:, None]
            gain = 1 + spread * draws[0]
            shift = mean_query.mean(-1, keepdim=True)[:, None] + spread * draws[1]
        return gain * F.layer_norm(mean_query, mean_query.shape[-1:])[:, None] + shift

    def denoising_error(self, target: Tensor, mean: Tensor, condition: Tensor) -> Tensor:
        """Squared error of the noise predicted at all steps, averaged per video, (V,). The noise is the video's mean,
        and is not detached. (There is no chain here that multiplies errors, so bf16 is precise enough.)"""
        noise = mean[:, None].expand_as(condition)
        noisy = self.diffusion.noisy(target, noise)  # (T, V, R, D)
        predicted = self.diffusion.denoiser(noisy, self.diffusion.denoiser.context(condition))
        return (noise - predicted).square().mean((0, 2, 3))

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        terms = self.ranking_terms(encoded, self.branch_cosines(encoded), epoch=epoch, generator=generator)
        terms["kl"] = encoded.per_video["kl"].mean()
        terms["denoise"] = encoded.per_video["denoise"].mean()
        return terms

    def query_losses(self, queries: Tensor, labels: Tensor) -> dict[str, Tensor]:
        similarity = query_similarity(queries, labels, self.config.similarity_temperature)
        return super().query_losses(queries, labels) | {"similarity": similarity}

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        own = {"similarity": c.weight_similarity, "kl": c.weight_kl, "denoise": c.weight_denoise}
        return super().loss_weights | own

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> DreamPRVRConfig:
        weights = ("weight_similarity", "weight_kl", "weight_denoise")
        return DreamPRVRConfig(**shared_settings(config, *weights), **renamed(config, _SETTINGS))

    def official_keys(self) -> dict[str, OfficialKey]:
        keys = super().official_keys() | {"register_queries": "video_qformer.query_tokens"}
        keys |= under("context_encoder", self.context_encoder.official_keys("mean_clip_encoder"))
        keys |= under("register_reader", self.register_reader.official_keys("video_qformer.cross_attention"))
        keys |= under("sampler", self.sampler.official_keys("video_probabilistic_variational_sampler"))
        keys |= under("diffusion", self.diffusion.official_keys("diffusion_mlp"))
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder"))


def kl_to_standard_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """``−½ Σ_d (1 + logvar − μ² − e^logvar)`` per video, (V, D) → (V,)."""
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
