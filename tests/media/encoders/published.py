"""Tiny random models, saved with the files of published ones: a processor, a tokenizer of the same kind, weights.

The weights are drawn wider than usual, so that a vector depends on every part of the picture and the sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

LETTERS = [chr(code) for code in range(33, 127)]
LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
MEAN, DEVIATION = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


def save_clip(folder: Path, **picture: Any) -> Path:
    """Like openai/clip-vit-*: short side bicubic, the middle cut out; padded with the mark that ends a sentence."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPProcessor, CLIPTokenizer

    words = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = CLIPTokenizer(vocab={word: i for i, word in enumerate(words)}, merges=[], model_max_length=77)
    text = {**LAYERS, "vocab_size": len(words), "max_position_embeddings": 77} | {
        "bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1, "pad_token_id": len(words) - 1,
    }  # fmt: skip
    vision = {**LAYERS, "image_size": 48, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24))
    settings = {"size": {"shortest_edge": 48}, "crop_size": {"height": 48, "width": 48}, "resample": 3} | picture
    images = CLIPImageProcessorPil(image_mean=MEAN, image_std=DEVIATION, **settings)
    return _save(folder, model, CLIPProcessor(images, tokenizer))  # today's layout: one processor_config.json


def save_siglip2(folder: Path, **picture: Any) -> Path:
    """Like google/siglip2-*: SigLIP's architecture, stretched bilinear, Gemma's tokenizer, 64 tokens and no mask."""
    from transformers import GemmaTokenizer, SiglipConfig, SiglipImageProcessorPil, SiglipModel

    words = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *LETTERS]
    tokenizer = GemmaTokenizer(
        vocab={word: i for i, word in enumerate(words)}, merges=[], model_max_length=64, padding_side="right",
        add_bos_token=False, add_eos_token=True, model_input_names=["input_ids"],
    )  # fmt: skip
    text = {**LAYERS, "vocab_size": len(words), "max_position_embeddings": 64, "projection_size": 32} | {
        "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    model = SiglipModel(SiglipConfig(text_config=text, vision_config={**LAYERS, "image_size": 48, "patch_size": 8}))
    settings = {"size": {"height": 48, "width": 48}, "resample": 2, "image_mean": [0.5] * 3} | picture
    images = SiglipImageProcessorPil(image_std=[0.5] * 3, **settings)
    return _save(folder, model, images, tokenizer)  # the published layout: preprocessor_config.json


def _save(folder: Path, model: Any, *others: Any) -> Path:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.copy_(torch.randn(weights.shape, generator=generator) * 1.5 / weights[0].numel() ** 0.5)
    for part in (model, *others):
        part.save_pretrained(folder)
    return folder
