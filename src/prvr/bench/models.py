"""A model of real size with random weights, for benchmarks that need no download."""

from __future__ import annotations

import torch

from prvr.media import require_transformers

SIDE = 224  # of its pictures


def random_model(device: torch.device, layers: int = 12) -> torch.nn.Module:
    """SigLIP's architecture with random weights, and a small text part, which is not measured."""
    transformers = require_transformers()
    vision = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "image_size": SIDE}
    text = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.SiglipConfig(
        vision_config={**vision, "num_hidden_layers": layers, "patch_size": 16},
        text_config={**text, "vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    )
    model: torch.nn.Module = transformers.SiglipModel(config).eval().requires_grad_(False).to(device)
    return model
