"""Embedding without training: frames, windows or adaptive moments of an encoder, pooled anchors, TRACE unprojected."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from prvr.backbones import Frozen, FrozenConfig
from prvr.library.ingest.embedding import Embedded, Embedding
from prvr.library.store.settings import LibrarySettings
from prvr.media import Encoder, Image, TextEncoder
from prvr.trace import Trace

SECTION_SAMPLES = 4096  # over an hour at one per second


class FrozenEmbedding(Embedding):
    """Embeds frames or subtitle lines with an encoder's own vectors; no weights are trained.

    Neighbouring sections overlap by as many samples as a window needs, so that cutting a video into sections does not
    change its windows.
    """

    backbone: Frozen

    def __init__(self, encoder: TextEncoder, **config: object):
        width = encoder.width
        made = Frozen(FrozenConfig(visual_width=width, query_width=width, **config)).eval()  # type: ignore[arg-type]
        self.encoder, self.backbone = encoder, made
        self.trace = Trace(width).requires_grad_(False)
        self.own_keys = made.config.local != "moments"
        window, stride = made.config.window, made.config.stride
        windows = made.config.local == "windows"
        self.overlap = max(0, window - stride) if windows else 0
        self.step = max(stride, SECTION_SAMPLES // stride * stride) if windows else SECTION_SAMPLES

    @staticmethod
    def of_frames(encoder: TextEncoder, settings: LibrarySettings) -> FrozenEmbedding:
        window, stride = (max(1, round(seconds * settings.rate)) for seconds in (settings.window, settings.stride))
        return FrozenEmbedding(encoder, local=settings.local, window=window, stride=stride)

    @staticmethod
    def of_lines(encoder: TextEncoder) -> FrozenEmbedding:
        """For subtitles: every line is one token."""
        return FrozenEmbedding(encoder, local="frames")

    def embed(self, samples: Tensor) -> Embedded:
        moments = self.backbone.moments(samples)
        real = moments.vectors.square().sum(1) > 0  # zero tokens match nothing; keep them only if there are no others
        if bool(real.any()):
            moments = type(moments)(moments.vectors[real], moments.spans[real])
        return Embedded(self.backbone.join([moments]), moments.spans)

    def sentences(self, texts: Sequence[str]) -> Tensor:
        return torch.from_numpy(self.encoder.encode_texts(texts))

    def picture(self, image: Image) -> Tensor | None:
        if not isinstance(self.encoder, Encoder):
            return None
        return torch.from_numpy(self.encoder.encode_images([image])[0])
