"""DreamPRVR of the baseline in ``naive.py``.

The denoiser embeds time and condition in every step, and the pooling runs its GRU once per video. The formulas are
those of ``prvr.backbones.dreamprvr``, and parameters have the names of released checkpoints, so
``load_state_dict(to_official(backbone))`` gives the same model.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from naive_blocks import Block, GaussianEncoder, InputProjection, Positions
from torch import Tensor, nn

from prvr.backbones import DreamPRVRConfig
from prvr.tokens import VideoBatch, VideoTokens


class RegisterReader(nn.Module):
    def __init__(self, config: DreamPRVRConfig):
        super().__init__()
        self.query_tokens = nn.Parameter(torch.randn(1, config.registers, config.width))
        self.cross_attention = Block(config, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.cross_attention(self.query_tokens.repeat(len(x), 1, 1), x)


class SortedPooling(nn.Module):
    def __init__(self, size: int = 32):
        super().__init__()
        self.size = size
        self.gru = nn.GRU(size, size, bidirectional=True, batch_first=True)
        self.linear = nn.Linear(size, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length = x.shape[:2]
        frequency = torch.exp(torch.arange(0, self.size, 2, device=x.device) * (-math.log(10000.0) / self.size))
        angles = torch.arange(length, device=x.device).unsqueeze(1) * frequency
        positions = torch.zeros(length, self.size, device=x.device)
        positions[:, 0::2], positions[:, 1::2] = torch.sin(angles), torch.cos(angles)
        both, _ = self.gru(positions.unsqueeze(0).repeat(batch, 1, 1))
        merged = (both[..., : self.size] + both[..., self.size :]) / 2
        weights = torch.softmax(self.linear(merged) / 0.1, dim=1)  # (B, L, 1)
        return (x.sort(dim=1, descending=True)[0] * weights).sum(dim=1)


class AttentionPooling(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(width, width // 2, bias=False), nn.Linear(width // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.w_2(torch.tanh(self.w_1(x))), dim=1)
        return (weights * x).sum(dim=1)


class MeanHead(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.attention, self.fc, self.layer_norm = AttentionPooling(width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, pooled: Tensor, x: Tensor) -> Tensor:
        return F.normalize(self.layer_norm(pooled + torch.sigmoid(self.fc(self.attention(x)))), dim=-1)


class VarianceHead(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.attention, self.fc, self.fc2 = AttentionPooling(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, pooled: Tensor, x: Tensor) -> Tensor:
        return self.fc(self.attention(x)) + self.fc2(pooled)


class Sampler(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.gpo, self.pie_net_video, self.uncertain_net_video = SortedPooling(), MeanHead(width), VarianceHead(width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pooled = self.gpo(x)
        return self.pie_net_video(pooled, x), self.uncertain_net_video(pooled, x)


class DenoiserLayer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.blcok_in = nn.Sequential(nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, width))
        self.blcok_out = nn.Sequential(nn.LayerNorm(width), nn.SiLU(), nn.Dropout(0.0), nn.Linear(width, width))
        self.temb_proj = nn.Sequential(nn.SiLU(), nn.Linear(width, width))
        self.cond_proj = nn.Sequential(nn.SiLU(), nn.Linear(width, width))
        self.short_cut = nn.Linear(width, width)

    def forward(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        inner = self.blcok_in(x) + self.temb_proj(time).unsqueeze(1) + self.cond_proj(condition)
        return self.blcok_out(inner) + self.short_cut(x)


class TimeEmbedding(nn.Module):
    def __init__(self, steps: int, width: int):
        super().__init__()
        table = nn.Embedding(steps, width)
        table.weight.requires_grad_(False)
        self.timembedding = nn.Sequential(table, nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, steps: Tensor) -> Tensor:
        return self.timembedding(steps)


class Denoiser(nn.Module):
    """Predicts the noise in registers (B, R, D) at steps (B,)."""

    def __init__(self, config: DreamPRVRConfig):
        super().__init__()
        width = config.width
        self.time_embedding = TimeEmbedding(config.diffusion_steps, width)
        self.cond_embedding = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([DenoiserLayer(width) for _ in range(config.denoiser_layers)])
        self.short_cut = nn.Linear(width, width)

    def forward(self, x: Tensor, steps: Tensor, condition: Tensor) -> Tensor:
        time, condition = self.time_embedding(steps), self.cond_embedding(condition)
        hidden = x
        for layer in self.layers:
            hidden = layer(hidden, time, condition)
        return self.short_cut(hidden + x)


class NaiveDreamPRVR(nn.Module):
    """The whole model. What training needs beside the tokens is left in the result of ``encode``."""

    def __init__(self, config: DreamPRVRConfig):
        super().__init__()
        c = self.config = config
        self.query_input_proj = InputProjection(c.query_width, c.width, c.input_dropout)
        self.query_pos_embed = Positions(c.words, c.width, c.input_dropout)
        self.clip_input_proj = InputProjection(c.visual_width, c.width, c.input_dropout)
        self.clip_pos_embed = Positions(max(c.frames, c.clips), c.width, c.input_dropout)
        self.frame_input_proj = InputProjection(c.visual_width, c.width, c.input_dropout)
        self.frame_pos_embed = Positions(c.frames, c.width, c.input_dropout)
        self.query_encoder = Block(c, 4 * c.width)
        self.modular_vector_mapping = nn.Linear(c.width, 1, bias=False)
        self.mean_clip_encoder = Block(c, 4 * c.width)
        self.video_qformer = RegisterReader(c)
        self.video_probabilistic_variational_sampler = Sampler(c.width)
        self.diffusion_mlp = Denoiser(c)
        self.clip_encoder, self.frame_encoder = GaussianEncoder(c, c.clips), GaussianEncoder(c, c.frames)
        self.schedule = schedule(c.diffusion_steps)
        self.apply(self._initialise)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.data.normal_(0.0, self.config.init_std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(Q, L, Dq), (Q, L) → (Q, D)"""
        x, mask = self.query_pos_embed(self.query_input_proj(tokens)), mask.float()
        states = self.query_encoder(x, x, mask.unsqueeze(1))
        energy = self.modular_vector_mapping(states)
        energy = energy * mask.unsqueeze(2) + (1 - mask.unsqueeze(2)) * -1e10
        return (torch.softmax(energy, dim=1) * states).sum(dim=1)

    def encode(self, batch: VideoBatch) -> tuple[VideoTokens, Tensor, Tensor, Tensor]:
        """Tokens, and the latent's mean (V, D), log-variance (V, D) and condition (V, R, D)."""
        spare = self.config.frames - batch.frames.shape[1]
        frames, mask = F.pad(batch.frames, (0, 0, 0, spare)), F.pad(batch.frame_mask.float(), (0, spare))
        clips = self.clip_pos_embed(self.clip_input_proj(batch.clips))
        frames = self.frame_pos_embed(self.frame_input_proj(frames))
        context = self.mean_clip_encoder(clips, clips)
        condition = self.video_qformer(context)
        mean, log_variance = self.video_probabilistic_variational_sampler(context)
        registers = self.generate(mean.unsqueeze(1).repeat(1, self.config.registers, 1), condition)
        clips = self.clip_encoder(clips, registers)
        frames = self.frame_encoder(frames, registers, mask) * mask.unsqueeze(2)
        return VideoTokens(frames, mask > 0, clips, registers), mean, log_variance, condition

    def generate(self, noise: Tensor, condition: Tensor) -> Tensor:
        """The reverse chain: the latent's mean is its start and the noise put back in every step."""
        x, s = noise, self.schedule
        for t in reversed(range(self.config.diffusion_steps)):
            predicted = self.diffusion_mlp(x, torch.full((len(x),), t, device=x.device), condition)
            kept = s["kept"][t]
            clean = (math.sqrt(1 / kept) * x - math.sqrt(1 / kept - 1) * predicted).clamp(-1, 1)
            x = s["clean"][t] * clean + s["noisy"][t] * x
            if t > 0:
                x = x + s["deviation"][t] * noise
        return x


def schedule(steps: int) -> dict[str, list[float]]:
    """Cosine schedule: ᾱ, the two posterior weights, and the deviation of the noise put back."""
    signal = [math.cos((t / steps + 0.008) / 1.008 * math.pi / 2) ** 2 for t in range(steps + 1)]
    table: dict[str, list[float]] = {"kept": [], "clean": [], "noisy": [], "deviation": []}
    before = 1.0
    for t in range(steps):
        beta = min(max(1 - signal[t + 1] / signal[t], 0.0), 0.999)
        kept = before * (1 - beta)
        table["kept"].append(kept)
        table["clean"].append(beta * math.sqrt(before) / (1 - kept))
        table["noisy"].append((1 - before) * math.sqrt(1 - beta) / (1 - kept))
        table["deviation"].append(math.sqrt(beta * (1 - before) / (1 - kept)))
        before = kept
    return table
