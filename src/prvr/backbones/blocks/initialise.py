"""Initial weights, as usual in this field."""

from __future__ import annotations

from torch import nn

from prvr.backbones.blocks.attention import AttentionBank, DenseAttentionBank


def initialise(model: nn.Module, std: float) -> None:
    """N(0, std²) for linear layers, embeddings and attention banks, zero biases. Norms, convolutions and recurrent
    layers keep the values that torch gives them."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, AttentionBank | DenseAttentionBank):
            module.initialise(std)
