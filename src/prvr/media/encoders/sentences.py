"""Sentence encoders for subtitles: sentence-transformers models such as MiniLM, run with ``transformers``.

The vector of a sentence is the mean of its token states, the pooling that these models were trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prvr.media.encoders.base import Array, TextEncoder, unit_rows
from prvr.media.encoders.text_batches import encode_in_batches
from prvr.media.encoders.weights import best_device, load_pretrained
from prvr.media.errors import EncoderError


class NoSentenceModel(EncoderError):
    """An encoder of pictures and sentences was named where a sentence model is needed."""

    def __init__(self, name: str):
        super().__init__(
            f"{name} encodes pictures and sentences; a sentence model is needed here, such as minilm "
            "(prvr prepare minilm)."
        )


class SentenceEncoder(TextEncoder):
    """A text model with mean pooling, from a folder or downloaded by ``prvr prepare``."""

    def __init__(self, name: str, device: str | None = None):
        self.name = name
        self.device = best_device(device)
        self.pretrained = load_pretrained(name)
        self.model = self.pretrained.model
        if not hasattr(self.model.config, "hidden_size"):  # it has one for pictures and one for sentences
            raise NoSentenceModel(name)
        self.model.to(self.device)
        self.width = self.word_width = int(self.model.config.hidden_size)
        self.longest = min(256, int(self.model.config.max_position_embeddings))

    @property
    def weights(self) -> str:  # type: ignore[override]
        return self.pretrained.weights

    def encode_texts(self, texts: Sequence[str]) -> Array:
        rows = [*encode_in_batches(texts, self.device, lambda part: [*self._means(part)])]
        return unit_rows(np.stack(rows)) if rows else np.zeros((0, self.width), np.float32)

    def encode_words(self, text: str) -> Array:
        return self.encode_word_lists([text])[0]

    def encode_word_lists(self, texts: Sequence[str]) -> list[Array]:
        return [*encode_in_batches(texts, self.device, self._words)]

    def _means(self, texts: Sequence[str]) -> Array:
        states, mask = self._states(texts)
        means: Array = ((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)).cpu().numpy()
        return means

    def _words(self, texts: Sequence[str]) -> list[Array]:
        states, mask = (part.cpu() for part in self._states(texts))
        return [row[valid].numpy() for row, valid in zip(states, mask.bool(), strict=True)]

    def _states(self, texts: Sequence[str]) -> tuple[Any, Any]:
        tokens = self.pretrained.tokens(texts, self.longest).to(self.device)
        return self.model(**tokens).last_hidden_state.float(), tokens["attention_mask"].float()
