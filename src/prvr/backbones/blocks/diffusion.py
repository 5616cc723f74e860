"""Truncated diffusion over register tokens: the schedule, the denoiser, the deterministic reverse chain."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.official import OfficialKey, affine, under

_COSINE_OFFSET = 0.008
_LARGEST_BETA = 0.999


class Schedule(NamedTuple):
    """Cosine schedule of T steps, each a float64 table (T,)."""

    beta: Tensor
    kept: Tensor  # ᾱ: share of the signal left after step t
    from_clean: Tensor  # k₁: weight of the clean estimate in the step back
    from_noisy: Tensor  # k₂: weight of the current state in it
    deviation: Tensor  # s: scale of the noise put back


def cosine_schedule(steps: int) -> Schedule:
    """The schedule, computed in float64.

    >>> cosine_schedule(10).beta[:3]
    tensor([0.0279, 0.0755, 0.1244], dtype=torch.float64)
    """
    time = torch.arange(steps + 1, dtype=torch.float64) / steps
    signal = torch.cos((time + _COSINE_OFFSET) / (1 + _COSINE_OFFSET) * math.pi / 2) ** 2
    signal = signal / signal[0]
    beta = (1 - signal[1:] / signal[:-1]).clamp(0, _LARGEST_BETA)
    kept = torch.cumprod(1 - beta, 0)
    kept_before = torch.cat([torch.ones(1, dtype=torch.float64), kept[:-1]])
    variance = beta * (1 - kept_before) / (1 - kept)
    log_variance = torch.log(torch.cat([variance[min(1, steps - 1)].view(1), variance[1:]]).clamp(min=1e-20))
    return Schedule(
        beta=beta,
        kept=kept,
        from_clean=beta * kept_before.sqrt() / (1 - kept),
        from_noisy=(1 - kept_before) * (1 - beta).sqrt() / (1 - kept),
        deviation=(0.5 * log_variance).exp(),
    )


def reverse_steps(schedule: Schedule) -> Tensor:
    """(T, 5) numbers s, p, c, n, d of ``x̂₀ = s·x − p·ε`` and ``x ← c·x̂₀ + n·x + d·noise``; no noise at t = 0."""
    recovered = (1 / schedule.kept).sqrt(), (1 / schedule.kept - 1).sqrt()
    deviation = torch.cat([schedule.deviation.new_zeros(1), schedule.deviation[1:]])
    return torch.stack([*recovered, schedule.from_clean, schedule.from_noisy, deviation], 1)


class DenoiserLayer(nn.Module):
    """``z = in(x) + time + condition``, ``out(z) + shortcut(x)``; swish before every linear."""

    def __init__(self, width: int):
        super().__init__()
        self.in_norm, self.in_linear = nn.LayerNorm(width), nn.Linear(width, width)
        self.out_norm, self.out_linear = nn.LayerNorm(width), nn.Linear(width, width)
        self.time = nn.Linear(width, width)
        self.condition = nn.Linear(width, width)
        self.shortcut = nn.Linear(width, width)

    def forward(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        z = self.in_linear(F.silu(self.in_norm(x))) + time + condition
        return self.out_linear(F.silu(self.out_norm(z))) + self.shortcut(x)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        # "blcok" is how the authors' checkpoints spell it
        pairs = (
            ("in_norm", "blcok_in.0"),
            ("in_linear", "blcok_in.2"),
            ("out_norm", "blcok_out.0"),
            ("out_linear", "blcok_out.3"),
            ("time", "temb_proj.1"),
            ("condition", "cond_proj.1"),
            ("shortcut", "short_cut"),
        )
        keys: dict[str, OfficialKey] = {}
        for ours, theirs in pairs:
            keys |= affine(ours, f"{prefix}.{theirs}")
        return keys


class DenoiserContext(NamedTuple):
    """What the denoiser's layers take besides the state, computed once per condition instead of once per step."""

    times: list[Tensor]  # per layer, (T, 1, 1, D); of a single step, (1, 1, D)
    conditions: list[Tensor]  # per layer, (B, R, D)

    def at(self, step: int) -> DenoiserContext:
        return DenoiserContext([time[step] for time in self.times], self.conditions)


class Denoiser(nn.Module):
    """Predicts the noise in register states (B, R, D), or in T stacked ones (T, B, R, D)."""

    def __init__(self, width: int, steps: int, layers: int):
        super().__init__()
        self.steps = steps
        # Meant to be sinusoidal, but the authors' initialisation overwrites it and it is never trained: a fixed random
        # table that belongs to the checkpoint.
        self.time_table = nn.Parameter(torch.empty(steps, width), requires_grad=False)
        self.time1, self.time2 = nn.Linear(width, width), nn.Linear(width, width)
        self.condition_norm, self.condition_linear = nn.LayerNorm(width), nn.Linear(width, width)
        self.layers = nn.ModuleList(DenoiserLayer(width) for _ in range(layers))
        self.out = nn.Linear(width, width)

    def context(self, condition: Tensor) -> DenoiserContext:
        embedded = F.silu(self.embed_condition(condition))  # (B, R, D)
        time = F.silu(self.time2(F.silu(self.time1(self.time_table))))[:, None, None]  # (T, 1, 1, D)
        layers = self._layers()
        return DenoiserContext([layer.time(time) for layer in layers], [layer.condition(embedded) for layer in layers])

    def _layers(self) -> list[DenoiserLayer]:
        return [layer for layer in self.layers if isinstance(layer, DenoiserLayer)]

    def embed_condition(self, condition: Tensor) -> Tensor:
        return self.condition_linear(F.relu(self.condition_norm(condition)))

    def forward(self, x: Tensor, context: DenoiserContext) -> Tensor:
        hidden = x
        for layer, time, condition in zip(self.layers, context.times, context.conditions, strict=True):
            hidden = layer(hidden, time, condition)
        return self.out(hidden + x)

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        times = f"{prefix}.time_embedding.timembedding"
        keys: dict[str, OfficialKey] = {"time_table": f"{times}.0.weight"}
        keys |= affine("time1", f"{times}.1") | affine("time2", f"{times}.3")
        keys |= affine("condition_norm", f"{prefix}.cond_embedding.0")
        keys |= affine("condition_linear", f"{prefix}.cond_embedding.2") | affine("out", f"{prefix}.short_cut")
        for index, layer in enumerate(self._layers()):
            keys |= under(f"layers.{index}", layer.official_keys(f"{prefix}.layers.{index}"))
        return keys


class RegisterDiffusion(nn.Module):
    """The diffusion around a denoiser: noising for training, a deterministic chain for generation."""

    signal_share: Tensor
    noise_share: Tensor
    reverse: Tensor

    def __init__(self, width: int, steps: int, layers: int):
        super().__init__()
        self.denoiser = Denoiser(width, steps, layers)
        self.schedule = cosine_schedule(steps)
        kept = self.schedule.kept[:, None, None, None]
        self.register_buffer("signal_share", kept.sqrt().float(), persistent=False)  # (T, 1, 1, 1)
        self.register_buffer("noise_share", (1 - kept).sqrt().float(), persistent=False)
        self.register_buffer("reverse", reverse_steps(self.schedule).float(), persistent=False)

    def noisy(self, clean: Tensor, noise: Tensor) -> Tensor:
        """x_t for every t at once, (T, B, R, D)."""
        return self.signal_share * clean + self.noise_share * noise

    def generate(self, noise: Tensor, condition: Tensor) -> Tensor:
        """Registers (B, R, D). The video's mean is the start of the chain *and* the noise put back at every step, so
        nothing is drawn: the same video gives the same registers. Gradients flow through all steps."""
        return self.chain(noise, condition)[-1]

    def chain(self, noise: Tensor, condition: Tensor) -> list[Tensor]:
        """The states after steps T−1 … 0."""
        context = self.denoiser.context(condition)
        states = [noise]
        for step in reversed(range(self.denoiser.steps)):
            states.append(self.step_back(states[-1], noise, context.at(step), self.reverse[step]))
        return states[1:]

    def step_back(self, state: Tensor, noise: Tensor, context: DenoiserContext, numbers: Tensor) -> Tensor:
        """One step of the chain, (B, R, D) → (B, R, D); ``numbers``: its row of ``reverse_steps``."""
        of_state, of_predicted, of_clean, of_noisy, of_noise = numbers.unbind()
        clean = (of_state * state - of_predicted * self.denoiser(state, context)).clamp(-1, 1)
        return of_clean * clean + of_noisy * state + of_noise * noise

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        return under("denoiser", self.denoiser.official_keys(prefix))
