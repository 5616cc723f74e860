"""Sentence encoders for subtitles: sentence-transformers models such as MiniLM, with plain ``transformers``.

A sentence's vector is the mean of its words' states (the pooling these models were trained with).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch

from prvr.media.encoders.base import Array, TextEncoder, unit_rows
from prvr.media.encoders.weights import best_device, load_pretrained, weights_hash

_BATCH = 64


class SentenceEncoder(TextEncoder):
    """Mean-pooled states of a text model, from a folder or from what ``prvr prepare`` fetched."""

    def __init__(self, name: str, device: str | None = None):
        self.name = name
        self.device = best_device(device)
        self.folder, self.model, self.tokenizer = load_pretrained(name)
        self.model.to(self.device)
        self.width = self.word_width = int(self.model.config.hidden_size)
        self.longest = min(256, int(self.model.config.max_position_embeddings))

    @cached_property
    def weights(self) -> str:  # type: ignore[override]
        return weights_hash(self.folder)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        found = [np.zeros((0, self.width), np.float32)]
        for first in range(0, len(texts), _BATCH):
            states, mask = self._states(texts[first : first + _BATCH])
            found.append(((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)).cpu().numpy())
        return unit_rows(np.concatenate(found))

    def encode_words(self, text: str) -> Array:
        return self.encode_word_lists([text])[0]

    def encode_word_lists(self, texts: Sequence[str]) -> list[Array]:
        found: list[Array] = []
        for first in range(0, len(texts), _BATCH):
            states, mask = (part.cpu() for part in self._states(texts[first : first + _BATCH]))
            found += [row[valid].numpy() for row, valid in zip(states, mask.bool(), strict=True)]
        return found

    @torch.inference_mode()
    def _states(self, texts: Sequence[str]) -> tuple[Any, Any]:
        made = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.longest, return_tensors="pt"
        ).to(self.device)
        return self.model(**made).last_hidden_state.float(), made["attention_mask"].float()
