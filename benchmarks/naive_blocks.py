"""Attention blocks of the baseline in ``naive.py``.

Every Gaussian attention block is a module with its own linear layers. Blocks run one after another, and their outputs
are stacked at the end. Registers pass through the blocks, and their output is dropped. Every pass computes windows.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones import DreamPRVRConfig


class InputProjection(nn.Module):
    def __init__(self, in_width: int, width: int, dropout: float):
        super().__init__()
        self.LayerNorm = nn.LayerNorm(in_width)
        self.net = nn.Sequential(nn.Dropout(dropout), nn.Linear(in_width, width), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.LayerNorm(x))


class Positions(nn.Module):
    def __init__(self, count: int, width: int, dropout: float):
        super().__init__()
        self.position_embeddings = nn.Embedding(count, width)
        self.LayerNorm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        indices = torch.arange(x.shape[1], device=x.device).unsqueeze(0).repeat(len(x), 1)
        return self.dropout(self.LayerNorm(x + self.position_embeddings(indices)))


class MultiHead(nn.Module):
    """Attention without an output projection: (B, T, D) reads (B, L, D) → (B, T, D)."""

    def __init__(self, config: DreamPRVRConfig):
        super().__init__()
        self.heads, width = config.heads, config.width
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(config.dropout)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)  # (B, H, L, D/H)

    def forward(self, tokens: Tensor, x: Tensor, mask: Tensor | None = None, window: Tensor | None = None) -> Tensor:
        query, key, value = self.split(self.query(tokens)), self.split(self.key(x)), self.split(self.value(x))
        logits = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])  # (B, H, T, L)
        if window is not None:
            logits = logits * window
        if mask is not None:
            logits = logits + (1 - mask.unsqueeze(1)) * -10000.0
        weights = self.dropout(torch.softmax(logits, dim=-1))
        mixed = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
        return mixed.view(*tokens.shape)


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(self.dropout(F.relu(self.layer1(x))))


class Block(nn.Module):
    """A post-norm transformer block; with ``window`` a Gaussian one, with tokens of their own a cross-attention."""

    def __init__(self, config: DreamPRVRConfig, inner: int, window: float | None = None):
        super().__init__()
        self.self = MultiHead(config)
        self.output = FeedForward(config.width, inner, config.dropout)
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.window = window

    def forward(self, tokens: Tensor, x: Tensor, mask: Tensor | None = None, registers: int = 0) -> Tensor:
        window = None
        if self.window is not None:
            window = torch.ones(x.shape[1], x.shape[1], device=x.device)
            length = x.shape[1] - registers
            window[:length, :length] = gaussian(length, self.window, x.device)
        tokens = self.norm1(tokens + self.dropout(self.self(tokens, x, mask, window)))
        return self.norm2(tokens + self.dropout(self.output(tokens)))


def gaussian(length: int, width: float, device: torch.device) -> Tensor:
    centres = torch.linspace(0, length - 1, length, device=device).unsqueeze(1) / length
    positions = torch.linspace(0, 1, length, device=device).unsqueeze(0)
    deviation = max(width, 0.01) / 9
    weight = torch.exp(-((positions - centres) ** 2) / (2 * deviation**2))
    return weight / weight.max(dim=-1, keepdim=True)[0]


class GaussianEncoder(nn.Module):
    """Eight blocks one by one over tokens and registers, then the blend of their outputs: (B, L, D) → (B, L, D)."""

    def __init__(self, config: DreamPRVRConfig, length: int):
        super().__init__()
        width, self.temperature = config.width, config.block_temperature
        windows = [None] + [2.0 ** (k - 3) for k in range(1, config.blocks)]
        self.e_attns = nn.ModuleList([Block(config, 4 * width, window) for window in windows])
        self.noise_input_layer = InputProjection(width, width, config.dropout)
        self.ca = Block(config, width)
        self.layer1, self.layer2 = nn.Linear(width, width), nn.Linear(width, length)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, registers: Tensor, mask: Tensor | None = None) -> Tensor:
        (batch, length), extra = x.shape[:2], registers.shape[1]
        tokens = torch.cat([x, self.noise_input_layer(registers)], dim=1)
        allowed = torch.ones(batch, length + extra, length + extra, device=x.device)
        if mask is not None:
            allowed[:, :, :length] = mask.unsqueeze(1)
        allowed[:, length:, length:] = 0
        outputs = []
        for block in self.e_attns:
            outputs.append(block(tokens, tokens, allowed, extra)[:, :length])
        stacked = torch.stack(outputs, dim=-1)  # (B, L, D, K)
        token = stacked.mean(dim=-1).mean(dim=1, keepdim=True)
        read = []
        for k in range(stacked.shape[-1]):
            read.append(self.ca(token, stacked[..., k], None if mask is None else mask.unsqueeze(1)))
        logits = self.layer2(self.dropout(F.relu(self.layer1(torch.cat(read, dim=1)))))  # (B, K, L)
        weights = torch.softmax(logits / self.temperature, dim=1).permute(0, 2, 1)
        return (stacked * weights.unsqueeze(2)).sum(dim=-1)
