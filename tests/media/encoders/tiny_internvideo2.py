"""An InternVideo2 and a LLaMA of tiny sizes with random weights, under the names of the published ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.media.encoders.conftest import save_tokenizer

WIDTH, DEPTH, HIDDEN, PATCH, OUTPUT = 128, 2, 96, 2, 768  # two heads; pictures of 32 x 32
_GRID = 16


def tower_state(frames: int = 8, seed: int = 0, width: int = WIDTH, depth: int = DEPTH) -> dict[str, torch.Tensor]:
    """Weights of the video tower; norms lie around one, everything else around zero."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int, scale: float = 0.2, around: float = 0.0) -> torch.Tensor:
        return torch.from_numpy((around + scale * rng.standard_normal(shape)).astype(np.float32))

    state = {
        "patch_embed.proj.weight": numbers(width, 3, 1, PATCH, PATCH),
        "patch_embed.proj.bias": numbers(width),
        "cls_token": numbers(1, 1, width),
        "pos_embed": numbers(1, 1 + frames * _GRID**2, width),
    }
    for number in range(depth):
        for name, shape in (("attn.qkv", (3 * width, width)), ("attn.proj", (width, width)),
                            ("mlp.fc1", (HIDDEN, width)), ("mlp.fc2", (width, HIDDEN))):  # fmt: skip
            state[f"blocks.{number}.{name}.weight"] = numbers(*shape, scale=0.08)
            if name != "attn.qkv":
                state[f"blocks.{number}.{name}.bias"] = numbers(shape[0])
        norms = ("norm1.weight", "norm2.weight", "attn.q_norm.weight", "attn.k_norm.weight")
        for name in (*norms, "ls1.gamma", "ls2.gamma"):
            state[f"blocks.{number}.{name}"] = numbers(width, around=1.0)
    return state | pool_state(seed, width)


def pool_state(seed: int, width: int = WIDTH) -> dict[str, torch.Tensor]:
    """Weights of the attention pool, which the CLIP model's own small file holds."""
    rng = np.random.default_rng((seed, 1))
    shapes = {f"cross_attn.{name}": (width, width) for name in ("q.weight", "k.weight", "v.weight")}
    shapes |= {"cross_attn.proj.weight": (OUTPUT, width), "cross_attn.proj.bias": (OUTPUT,)}  # type: ignore[dict-item]
    shapes |= {f"cross_attn.{name}_bias": (width,) for name in "qkv"}  # type: ignore[misc]
    shapes |= {f"norm1_{name}.{kind}": (width,) for name in "qkv" for kind in ("weight", "bias")}  # type: ignore[misc]
    found = {name: 0.15 * rng.standard_normal(shape) for name, shape in shapes.items()}
    return {f"clip_projector.{name}": torch.from_numpy(value.astype(np.float32)) for name, value in found.items()}


def published(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The names that the authors' whole model gives to its video tower."""
    return {f"vision_encoder.{name}": tensor for name, tensor in state.items()}


def save_llama(folder: Path, width: int = 4096) -> Path:
    """One thin layer, as wide outside as the published words."""
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(3)
    size = save_tokenizer(folder, longest=100)
    layer = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8}
    LlamaModel(LlamaConfig(vocab_size=size, hidden_size=width, intermediate_size=16, **layer)).save_pretrained(folder)
    return folder
