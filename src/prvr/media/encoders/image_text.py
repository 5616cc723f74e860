"""Image–text encoders of the ``transformers`` library: CLIP, SigLIP, SigLIP 2 and others with the same two methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from prvr.media.encoders.base import Array, Encoder, Pictures, require_pictures, unit_rows
from prvr.media.encoders.choice import ENGINE_SETTING, ROUNDED, engine_setting
from prvr.media.encoders.engine import PictureEngine
from prvr.media.encoders.preparation import picture_preparation, text_preparation
from prvr.media.encoders.text_batches import encode_in_batches
from prvr.media.encoders.weights import best_device, load_pretrained
from prvr.media.errors import EncoderError
from prvr.media.frames import Image
from prvr.media.packages import require_openvino

# Configurations of CLIP from before July 2023 state this instead of the end mark; `transformers` then takes the token
# with the highest number, which is the end mark in CLIP's vocabulary.
_OLD_END_MARK = 2


class ImageTextEncoder(Encoder):
    """An image–text model from a folder, or one that ``prvr prepare`` downloaded; evaluation mode.

    Its vectors are those of the model's own processor and model, for pictures as the video reader returns them.
    Pictures are seen by the engine that is fastest here (``engine.py``), sentences in float32; many at once in
    bfloat16 on a GPU.
    """

    sees_motion = False

    def __init__(self, name: str, device: str | None = None, engine: str | None = None):
        setting = engine_setting(engine)
        self.name = name
        self.device = best_device(device)
        self.pretrained = load_pretrained(name)
        self.model = self.pretrained.model
        missing = [m for m in ("get_image_features", "get_text_features") if not hasattr(self.model, m)]
        if missing:
            kind = type(self.model).__name__
            raise EncoderError(
                f"{name} is a {kind}, which has no {missing[0]}. An image–text model is needed (CLIP, SigLIP, …)."
            )
        self.model.to(self.device)
        self.pictures = picture_preparation(self.pretrained.folder)
        if setting in ROUNDED and self.device.type != "cpu":
            raise EncoderError(
                f"{setting} is for processors, but {name} runs on {self.device}: set {ENGINE_SETTING} to auto or bf16."
            )
        if setting in ROUNDED:
            require_openvino()
        self.engine = PictureEngine(
            self.model, self.pictures, self.device, setting, name=name, weights=lambda: self.weights
        )
        self.batch = self.engine.batch
        self.sentences = text_preparation(self.model.config)
        self.fit = self.pictures.fit
        self.text_preprocessing = str(self.sentences)
        self.word_width = int(getattr(self.model.config, "text_config", self.model.config).hidden_size)
        self._require_end_mark()
        self.width = self.encode_texts(["a"]).shape[1]

    @property
    def weights(self) -> str:  # type: ignore[override]
        return self.pretrained.weights

    @property
    def preprocessing(self) -> str:  # type: ignore[override]
        """How pictures are prepared, and the engine where its vectors cannot be compared with float32's."""
        return "; ".join(filter(None, (str(self.pictures), self.engine.mark)))

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return self.start_frames(images, before)()

    def start_frames(self, images: Pictures, before: Image | None = None) -> Callable[[], Array]:
        if not len(images):
            return lambda: np.zeros((0, self.width), np.float32)
        pictures = require_pictures(images, self.fit)  # (N, H, W, 3)
        parts = [self.engine.start(pictures[i : i + self.batch]) for i in range(0, len(pictures), self.batch)]
        return lambda: unit_rows(np.concatenate([part() for part in parts]))

    def encode_texts(self, texts: Sequence[str]) -> Array:
        rows = [*encode_in_batches(texts, self.device, lambda part: [*self._sentences(part)])]
        return unit_rows(np.stack(rows)) if rows else np.zeros((0, self.width), np.float32)

    def encode_words(self, text: str) -> Array:
        return self.encode_word_lists([text])[0]

    def encode_word_lists(self, texts: Sequence[str]) -> list[Array]:
        return [*encode_in_batches(texts, self.device, self._words)]

    def project_words(self, words: Array) -> Array:
        projection = getattr(self.model, "text_projection", None)
        if not isinstance(projection, torch.nn.Linear) or projection.in_features != words.shape[1]:
            return super().project_words(words)
        with torch.no_grad():
            states = torch.from_numpy(words).to(self.device, projection.weight.dtype)
            return projection(states).float().cpu().numpy()

    def _sentences(self, texts: Sequence[str]) -> Array:
        return _vectors(self.model.get_text_features(**self._inputs(texts)[0]))

    def _words(self, texts: Sequence[str]) -> list[Array]:
        inputs, real = self._inputs(texts)
        states = self.model.text_model(**inputs).last_hidden_state.float().cpu()  # (N, L, Dq)
        kept = zip(states, real.cpu(), strict=True)
        return [(row[words] if words.any() else row[:1]).numpy() for row, words in kept]

    def _inputs(self, texts: Sequence[str]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """What the text model reads, and which tokens are no padding (N, L)."""
        how = self.sentences
        tokens = self.pretrained.tokens(how.written(texts), how.longest, how.padding).to(self.device)
        read = ("input_ids",) if how.siglip else ("input_ids", "attention_mask")
        return {name: tokens[name] for name in read}, tokens["attention_mask"].bool()

    def _require_end_mark(self) -> None:
        """CLIP's vector of a sentence is that of its end mark; without one, all sentences would get the same vector."""
        mark = getattr(self.model.text_model, "eos_token_id", None)
        if mark in (None, _OLD_END_MARK):
            return
        found = self._inputs(["a"])[0]["input_ids"][0].tolist()
        if mark not in found:
            raise EncoderError(
                f"{self.name} expects the token {mark} at the end of a sentence (eos_token_id in config.json), but its "
                f"tokenizer writes {found}. The two do not belong together: download the model again."
            )


def _vectors(output: Any) -> Array:
    """The output as an array. Depending on its version, the library returns a tensor or an object that holds it."""
    tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return tensor.float().cpu().numpy()
