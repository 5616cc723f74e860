"""Embedding without training: frames, windows or adaptive moments of an encoder, pooled anchors, TRACE unprojected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.library.ingest.embedding import Embedded, Embedding
from prvr.library.store.settings import LibrarySettings
from prvr.media import Encoder, Image, TextEncoder

if TYPE_CHECKING:
    from torch import Tensor

    from prvr.backbones import Frozen
    from prvr.trace import Trace

SECTION_SAMPLES = 4096  # over an hour at one per second


class FrozenEmbedding(Embedding):
    """Embeds frames or subtitle lines with an encoder's own vectors; no weights are trained.

    Neighbouring sections overlap by as many samples as a window needs, so that cutting a video into sections does not
    change its windows.

    Queries need the encoder only. Backbone and TRACE, which import torch, are made when a video is first embedded.
    """

    def __init__(self, encoder: TextEncoder, local: str, window: int = 1, stride: int = 1):
        self.encoder, self.width = encoder, encoder.width
        self._config: dict[str, Any] = {"local": local, "window": window, "stride": stride}
        self.own_keys = local != "moments"
        windows = local == "windows"
        self.overlap = max(0, window - stride) if windows else 0
        self.step = max(stride, SECTION_SAMPLES // stride * stride) if windows else SECTION_SAMPLES

    @cached_property
    def backbone(self) -> Frozen:  # type: ignore[override]
        from prvr.backbones import Frozen, FrozenConfig

        return Frozen(FrozenConfig(visual_width=self.width, query_width=self.width, **self._config)).eval()

    @cached_property
    def trace(self) -> Trace:  # type: ignore[override]
        from prvr.trace import Trace

        return Trace(self.width).requires_grad_(False)

    @staticmethod
    def of_frames(encoder: TextEncoder, settings: LibrarySettings) -> FrozenEmbedding:
        window, stride = (max(1, round(seconds * settings.rate)) for seconds in (settings.window, settings.stride))
        return FrozenEmbedding(encoder, settings.local, window, stride)

    @staticmethod
    def of_lines(encoder: TextEncoder) -> FrozenEmbedding:
        """For subtitles: every line is one token."""
        return FrozenEmbedding(encoder, "frames")

    def embed(self, samples: Tensor) -> Embedded:
        moments = self.backbone.moments(samples)
        real = moments.vectors.square().sum(1) > 0  # zero tokens match nothing; keep them only if there are no others
        if bool(real.any()):
            moments = type(moments)(moments.vectors[real], moments.spans[real])
        return Embedded(self.backbone.join([moments]), moments.spans)

    def sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode_texts(texts)

    def picture(self, image: Image) -> NDArray[np.float32] | None:
        if not isinstance(self.encoder, Encoder):
            return None
        return self.encoder.encode_images([image])[0]
