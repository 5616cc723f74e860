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

from prvr.backbones.base import Backbone, BackboneConfig, Encoded, as_mask
from prvr.backbones.blocks.aggregation import BankAggregation
from prvr.backbones.blocks.attention import AttentionBank, CrossAttention
from prvr.backbones.blocks.diffusion import RegisterDiffusion
from prvr.backbones.blocks.inputs import InputEmbedding, Projection, WordPooling
from prvr.backbones.blocks.official import OfficialKey, under
from prvr.backbones.blocks.variational import VariationalSampler
from prvr.backbones.registry import register
from prvr.backbones.scores import TokenSet, max_cosine, max_dot
from prvr.losses import pick_negatives, query_diversity, query_similarity, triplet, two_way_nce
from prvr.tokens import TrainBatch, VideoTokens

_CLIP_POSITIONS = 128  # the authors' table is longer than the 32 clips that use it


@dataclass(frozen=True)
class DreamPRVRConfig(BackboneConfig):
    """Defaults are the Charades-STA configuration of the DreamPRVR release."""

    width: int = 384
    """hidden width D"""
    heads: int = 4
    """attention heads"""
    blocks: int = 8
    """attention blocks in a bank"""
    registers: int = 6
    """registers R"""
    diffusion_steps: int = 10
    """steps T of the truncated diffusion"""
    denoiser_layers: int = 2
    """layers of the denoiser"""
    block_temperature: float = 0.6
    """temperature of the softmax over a bank's blocks"""
    dropout: float = 0.25
    """dropout inside blocks"""
    input_dropout: float = 0.25
    """dropout on inputs"""
    init_std: float = 0.02
    """deviation of the initial weights"""
    clip_weight: float = 0.6
    """share of the clip branch in the score"""
    frame_weight: float = 0.4
    """share of the frame branch in the score"""
    margin: float = 0.2
    """triplet margin"""
    diversity_offset: float = 0.2
    """δ of the query diversity loss"""
    diversity_scale: float = 32.0
    """α of the query diversity loss"""
    diversity_power: float = 1.0
    """λ of the query diversity loss"""
    similarity_temperature: float = 0.01
    """τ of the query similarity loss"""
    perturbation: float = 0.1
    """scale of the textual perturbation"""
    weight_nce_clip: float = 0.02
    """loss weight: contrast on clips"""
    weight_nce_frame: float = 0.04
    """loss weight: contrast on frames"""
    weight_diversity: float = 3e-3
    """loss weight: query diversity"""
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
    """What the register generator makes of a video."""

    registers: Tensor  # (V, R, D), every entry in [−1, 1]
    mean: Tensor  # (V, D) unit length
    log_variance: Tensor  # (V, D)
    condition: Tensor  # (V, R, D)


@register
class DreamPRVR(Backbone):
    """The backbone TRACE is built on."""

    method = "dreamprvr"
    config_type = DreamPRVRConfig
    config: DreamPRVRConfig

    def __init__(self, config: DreamPRVRConfig):
        super().__init__(config)
        c = config
        self.query_input = InputEmbedding(c.query_width, c.width, c.words, c.input_dropout)
        self.query_encoder = AttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.query_pool = WordPooling(c.width)
        self.clip_input = InputEmbedding(c.visual_width, c.width, max(_CLIP_POSITIONS, c.clips), c.input_dropout)
        self.frame_input = InputEmbedding(c.visual_width, c.width, c.frames, c.input_dropout)
        self.context_encoder = AttentionBank(c.width, c.heads, [None], None, c.dropout)
        self.register_queries = nn.Parameter(torch.empty(1, c.registers, c.width))
        self.register_reader = CrossAttention(c.width, c.heads, c.dropout)
        self.sampler = VariationalSampler(c.width, c.clips)
        self.diffusion = RegisterDiffusion(c.width, c.diffusion_steps, c.denoiser_layers)
        self.clip_encoder = RegisterBank(c, c.clips)
        self.frame_encoder = RegisterBank(c, c.frames)
        self.initialise()

    @property
    def width(self) -> int:
        return self.config.width

    def initialise(self) -> None:
        """One pass over all modules, as the authors do: N(0, 0.02²) weights, zero biases, unit norms."""
        std = self.config.init_std
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, AttentionBank):
                module.initialise(std)
        nn.init.normal_(self.diffusion.denoiser.time_table, std=std)
        nn.init.normal_(self.register_queries)
        for name, parameter in self.sampler.pool.gru.named_parameters():
            if "weight_ih" in name:
                nn.init.xavier_uniform_(parameter)
            elif "weight_hh" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.query_pool(*self._query_states(tokens, mask))

    def _query_states(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        mask = as_mask(mask)
        return self.query_encoder(self.query_input(tokens), mask)[0], mask  # (Q, L, D)

    def imagine(self, clip_tokens: Tensor) -> Imagined:
        """Embedded clips (V, C, D) → registers, always in float32: the chain multiplies its input by up to 204."""
        context = self.context_encoder(clip_tokens)[0]
        with torch.autocast(context.device.type, enabled=False):
            context = context.to(self.register_queries.dtype)
            condition = self.register_reader(self.register_queries.expand(len(context), -1, -1), context)
            mean, log_variance = self.sampler(context)
            noise = mean[:, None].expand_as(condition)
            registers = self.diffusion.generate(noise, condition)
        return Imagined(registers, mean, log_variance, condition)

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        return self._encode_videos(frames, frame_mask, clips)[0]

    def _encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> tuple[VideoTokens, Imagined]:
        frames, frame_mask = self._fill_slots(frames, as_mask(frame_mask))
        if clips.shape[1] != self.config.clips:
            raise ValueError(f"{clips.shape[1]} clips per video, but this model was made for {self.config.clips}")
        clip_tokens = self.clip_input(clips)
        imagined = self.imagine(clip_tokens)
        encoded_clips = self.clip_encoder(clip_tokens, imagined.registers)
        encoded_frames = self.frame_encoder(self.frame_input(frames), imagined.registers, frame_mask)
        encoded_frames = encoded_frames * frame_mask[..., None].to(encoded_frames.dtype)
        return VideoTokens(encoded_frames, frame_mask, encoded_clips, imagined.registers), imagined

    def _fill_slots(self, frames: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Zero-pad to the model's frame slots, so that a video's tokens depend neither on its batch nor on what is left
        in padded slots (the aggregation's weight token looks at all of them)."""
        spare = self.config.frames - frames.shape[1]
        if spare < 0:
            raise ValueError(
                f"{frames.shape[1]} frames per video, but this model has {self.config.frames} slots: "
                "resample first (prvr.data.sample_frames)"
            )
        frames = frames.masked_fill(~mask[..., None], 0.0)
        return F.pad(frames, (0, 0, 0, spare)), F.pad(mask, (0, spare))

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        # Padded frame slots are zero and take part with cosine 0: a short video never scores below 0 on frames.
        return TokenSet(self.config.clip_weight, videos.clips), TokenSet(self.config.frame_weight, videos.frames)

    # -- training -----------------------------------------------------------------------------------------------------

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        scored, shaped = self._encode_queries_twice(batch.queries.tokens, batch.queries.mask)
        videos, imagined = self._encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        target = self.perturb(self.mean_query(shaped.float(), batch.labels, len(videos)))
        per_video = {
            "kl": kl_to_standard_normal(imagined.mean, imagined.log_variance),
            "denoise": self.denoising_error(target, imagined.mean, imagined.condition),
        }
        return Encoded(scored, batch.labels, videos, {"shaped": shaped}, per_video)

    def _encode_queries_twice(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Scores see one pass, the query losses another with its own dropout, as in the authors' training step."""
        if not self.training or self.config.dropout == self.config.input_dropout == 0:
            once = self.encode_queries(tokens, mask)
            return once, once
        first, second = self.encode_queries(tokens.repeat(2, 1, 1), mask.repeat(2, 1)).chunk(2)
        return first, second

    @staticmethod
    def mean_query(queries: Tensor, labels: Tensor, videos: int) -> Tensor:
        """Mean of each video's queries, (N, D) → (V, D); padding (label −1) counts for none."""
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
        and is not detached."""
        with torch.autocast(mean.device.type, enabled=False):
            noise = mean[:, None].expand_as(condition)
            noisy = self.diffusion.noisy(target, noise)  # (T, V, R, D)
            predicted = self.diffusion.denoiser(noisy, self.diffusion.denoiser.context(condition), slice(None))
            return (noise - predicted).square().mean((0, 2, 3))

    def objective(self, encoded: Encoded, *, epoch: int, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        c, labels = self.config, encoded.labels
        queries, shaped = encoded.queries.float(), encoded.per_query["shaped"].float()
        terms = {}
        for name, tokens in (("clip", encoded.videos.clips.float()), ("frame", encoded.videos.frames.float())):
            cosine = max_cosine(queries, tokens)
            negatives = pick_negatives(cosine, labels, hard_pool=c.pool_at(epoch), generator=generator)
            terms[f"nce_{name}"] = two_way_nce(max_dot(queries, tokens), labels)
            terms[f"triplet_{name}"] = triplet(cosine, labels, c.margin, negatives)
        terms["diversity"] = query_diversity(
            shaped, labels, offset=c.diversity_offset, scale=c.diversity_scale, power=c.diversity_power
        )
        terms["similarity"] = query_similarity(shaped, labels, c.similarity_temperature)
        terms["kl"] = encoded.per_video["kl"].mean()
        terms["denoise"] = encoded.per_video["denoise"].mean()
        return terms

    @property
    def loss_weights(self) -> dict[str, float]:
        c = self.config
        return {
            "nce_clip": c.weight_nce_clip,
            "nce_frame": c.weight_nce_frame,
            "triplet_clip": 1.0,
            "triplet_frame": 1.0,
            "diversity": c.weight_diversity,
            "similarity": c.weight_similarity,
            "kl": c.weight_kl,
            "denoise": c.weight_denoise,
        }

    # -- the authors' checkpoints -------------------------------------------------------------------------------------

    @classmethod
    def config_from_official(cls, config: Mapping[str, Any]) -> DreamPRVRConfig:
        f, d = config["loss_factor"], config["neg_factor"]
        return DreamPRVRConfig(
            visual_width=config["visual_feat_dim"],
            query_width=config["q_feat_size"],
            width=config["hidden_size"],
            heads=config["n_heads"],
            frames=config["max_ctx_l"],
            clips=config["map_size"],
            words=config["max_desc_l"],
            blocks=config["attention_num"],
            registers=config["num_registers"],
            diffusion_steps=config["timesteps"],
            denoiser_layers=config["num_diffusion_layers"],
            block_temperature=config["sft_factor"],
            dropout=config["drop"],
            input_dropout=config["input_drop"],
            init_std=config.get("initializer_range", cls.config_type.init_std),
            clip_weight=config["clip_scale_w"],
            frame_weight=config["frame_scale_w"],
            margin=config["margin"],
            hard_negative_epoch=0 if config.get("use_hard_negative") else config.get("hard_negative_start_epoch", 20),
            hard_pool=config["hard_pool_size"],
            diversity_offset=d[0],
            diversity_scale=d[1],
            diversity_power=d[2],
            similarity_temperature=config["deterministic_tau"],
            perturbation=config.get("perturbation_scale", cls.config_type.perturbation),
            weight_nce_clip=f[0],
            weight_nce_frame=f[1],
            weight_diversity=f[2],
            weight_similarity=f[3],
            weight_kl=f[4],
            weight_denoise=f[5],
        )

    def official_keys(self) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {"register_queries": "video_qformer.query_tokens"}
        for branch in ("query", "clip", "frame"):
            embedding = self.get_submodule(f"{branch}_input")
            assert isinstance(embedding, InputEmbedding)
            keys |= under(f"{branch}_input.project", embedding.project.official_keys(f"{branch}_input_proj"))
            keys |= under(f"{branch}_input.position", embedding.position.official_keys(f"{branch}_pos_embed"))
        keys |= under("query_encoder", self.query_encoder.official_keys("query_encoder"))
        keys |= under("query_pool", self.query_pool.official_keys("modular_vector_mapping"))
        keys |= under("context_encoder", self.context_encoder.official_keys("mean_clip_encoder"))
        keys |= under("register_reader", self.register_reader.official_keys("video_qformer.cross_attention"))
        keys |= under("sampler", self.sampler.official_keys("video_probabilistic_variational_sampler"))
        keys |= under("diffusion", self.diffusion.official_keys("diffusion_mlp"))
        keys |= under("clip_encoder", self.clip_encoder.official_keys("clip_encoder"))
        return keys | under("frame_encoder", self.frame_encoder.official_keys("frame_encoder"))


def kl_to_standard_normal(mean: Tensor, log_variance: Tensor) -> Tensor:
    """``−½ Σ_d (1 + logvar − μ² − e^logvar)`` per video, (V, D) → (V,)."""
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
