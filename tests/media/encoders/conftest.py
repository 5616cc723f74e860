"""Tiny random models, saved to a folder on the spot: no network, no weights of anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = ["a", "the", "red", "blue", "square", "circle", "moves", "left", "right", "man", "opens", "door", "of", "and"]


def save_tokenizer(folder: Path, *, longest: int) -> int:
    """A word-level tokenizer with begin, end and padding; returns the size of its vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[BOS]", "[EOS]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 2), ("[EOS]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=longest, **special).save_pretrained(folder)
    return len(vocabulary)


def save_pair(folder: Path, kind: str) -> Path:
    from transformers import CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

    torch.manual_seed(1)
    size = save_tokenizer(folder, longest=12)
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**layers, "vocab_size": size, "max_position_embeddings": 12, "projection_size": 16} | {
        "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0,
    }  # fmt: skip
    vision = {**layers, "image_size": 32, "patch_size": 8}
    seen: dict[str, Any] = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    model: Any
    if kind == "clip":
        model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
        seen |= {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True}
    else:
        model = SiglipModel(SiglipConfig(text_config=text, vision_config=vision))
        seen |= {"size": {"height": 32, "width": 32}}
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(seen), encoding="utf-8")
    return folder


@pytest.fixture(scope="session", params=["clip", "siglip"])
def pair_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_pair(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="session")
def sentence_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("sentences")
    torch.manual_seed(2)
    size = save_tokenizer(folder, longest=20)
    config = transformers.BertConfig(
        vocab_size=size, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=20,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    return folder
