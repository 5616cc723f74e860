"""A gallery: what a corpus looks like once everything that no query changes has been computed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from prvr.backbones import Backbone, TokenSet
from prvr.tokens import VideoBatch, VideoTokens
from prvr.trace import Trace, TraceConfig, TraceFactors

FORMAT = "prvr-gallery-1"


class NotSeparable(TypeError):
    """The backbone scores each query–video pair anew, so there is nothing to prepare."""


@dataclass(frozen=True)
class Gallery:
    """Videos prepared for scoring: unit tokens with their weights, and TRACE's factors.

    ``Gallery.build(backbone, trace, batches)`` encodes; ``save`` and ``load`` keep it on disk; ``prvr.scoring.score``
    and ``top_k`` rank it.
    """

    sets: tuple[TokenSet, ...]  # each (V, N, D), unit length or zero
    factors: TraceFactors | None
    query_projection: Tensor | None  # (D, D)
    config: TraceConfig
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sets[0].tokens)

    @property
    def device(self) -> torch.device:
        return self.sets[0].tokens.device

    @staticmethod
    @torch.no_grad()
    def build(backbone: Backbone, trace: Trace | None, batches: Iterable[VideoBatch]) -> Gallery:
        """Encode videos batch by batch on the backbone's device. ``trace=None``: base scores only."""
        require_separable(backbone)
        was_training = backbone.training
        backbone.eval()
        device = next(backbone.parameters()).device
        parts = [_prepare(backbone, trace, batch.to(device)) for batch in batches]
        backbone.train(was_training)
        if not parts:
            raise ValueError("no videos were given to build a gallery from")
        return Gallery.cat(parts)

    @staticmethod
    def of_tokens(backbone: Backbone, trace: Trace | None, tokens: VideoTokens, ids: Sequence[str] = ()) -> Gallery:
        """A gallery of videos that are already encoded, kept in float32 whatever encoded them."""
        require_separable(backbone)
        with torch.autocast(tokens.frames.device.type, enabled=False):
            tokens = tokens.to(torch.promote_types(tokens.frames.dtype, torch.float32))
            sets = tuple(TokenSet(s.weight, F.normalize(s.tokens, dim=-1)) for s in backbone.token_sets(tokens))
            factors = None if trace is None else trace.factors(tokens)
        return Gallery(
            sets=sets,
            factors=factors,
            query_projection=None if trace is None else trace.projections["query"].detach(),
            config=TraceConfig() if trace is None else trace.config,
            ids=tuple(ids),
        )

    @staticmethod
    def cat(parts: Sequence[Gallery]) -> Gallery:
        sets = tuple(
            TokenSet(group[0].weight, torch.cat([part.tokens for part in group]))
            for group in zip(*(part.sets for part in parts), strict=True)
        )
        factors = [part.factors for part in parts if part.factors is not None]
        joined = TraceFactors.cat(factors) if factors else None
        return replace(parts[0], sets=sets, factors=joined, ids=tuple(i for part in parts for i in part.ids))

    def __getitem__(self, rows: slice) -> Gallery:
        sets = tuple(TokenSet(s.weight, s.tokens[rows]) for s in self.sets)
        factors = None if self.factors is None else self.factors.map(lambda tensor: tensor[rows])
        return replace(self, sets=sets, factors=factors, ids=self.ids[rows])

    def to(self, device: torch.device | str) -> Gallery:
        return replace(
            self,
            sets=tuple(TokenSet(s.weight, s.tokens.to(device)) for s in self.sets),
            factors=None if self.factors is None else self.factors.to(device),
            query_projection=None if self.query_projection is None else self.query_projection.to(device),
        )

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, whole or not at all."""
        tensors = {f"set.{i}": s.tokens.contiguous().cpu() for i, s in enumerate(self.sets)}
        if self.factors is not None:
            tensors |= {f"trace.{name}": t.contiguous().cpu() for name, t in self.factors.tensors().items()}
        if self.query_projection is not None:
            tensors["query_projection"] = self.query_projection.contiguous().cpu()
        about = {"weights": [s.weight for s in self.sets], "trace": asdict(self.config), "ids": self.ids}
        partial = Path(f"{path}.part")
        save_file(tensors, partial, metadata={"format": FORMAT, "gallery": json.dumps(about)})
        os.replace(partial, path)

    @staticmethod
    def load(path: str | Path, device: str = "cpu") -> Gallery:
        with safe_open(path, framework="pt", device=device) as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{path} is no gallery of this version (found {metadata.get('format')!r}): rebuild it")
            about = json.loads(metadata["gallery"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        factors = {name.removeprefix("trace."): t for name, t in tensors.items() if name.startswith("trace.")}
        return Gallery(
            sets=tuple(TokenSet(weight, tensors[f"set.{i}"]) for i, weight in enumerate(about["weights"])),
            factors=TraceFactors(**factors) if factors else None,
            query_projection=tensors.get("query_projection"),
            config=TraceConfig(**about["trace"]),
            ids=tuple(about["ids"]),
        )


def require_separable(backbone: Backbone) -> None:
    if not backbone.separable:
        raise NotSeparable(f"{backbone.method} scores each query–video pair anew: it cannot be put into a gallery")


def _prepare(backbone: Backbone, trace: Trace | None, batch: VideoBatch) -> Gallery:
    tokens = backbone.encode_video_batch(batch)
    return Gallery.of_tokens(backbone, trace, tokens, batch.ids)
