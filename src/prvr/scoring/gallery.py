"""A gallery: a corpus with everything computed that does not depend on the query.

Every score is a product of one unit query with stored vectors, then a maximum. TRACE's query projection W is folded
into the stored side, ``(W q)·k = q·(Wᵀk)``, so that base and evidence share the query, and only the length of ``W q``
is left for query time. Of the register–frame compatibilities b a gallery keeps ``exp((b − b_max)/τ)``, of the attended
values their Gram matrix: see ``trace.operator`` for why these are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prvr.backbones import Backbone
from prvr.scoring import disk
from prvr.scoring.factors import Routes, TokenWeights, gallery_factors, require_separable, working_type
from prvr.scoring.graphs import TopGraphs
from prvr.scoring.inputs import evaluation_mode
from prvr.scoring.packed import Packed, pack_gallery
from prvr.scoring.storage import Storage, Vectors, storage_of
from prvr.tokens import TensorRecord, VideoBatch, VideoTokens
from prvr.trace import Trace, TraceConfig

_VECTORS = ("local", "fixed", "keys", "registers", "values")


@dataclass(frozen=True, eq=False)
class Gallery:
    """Videos prepared for scoring.

    ``Gallery.build(backbone, trace, batches)`` encodes; ``save`` and ``load`` keep it on disk, where it is mapped into
    memory rather than read; ``prvr.scoring.score`` and ``top_k`` rank it.
    """

    weights: TokenWeights
    config: TraceConfig
    ids: tuple[str, ...]
    first_page: Tensor  # (V + 1,) on the host: video v has pages first_page[v] up to first_page[v + 1]
    local: Vectors  # (P, page, D) unit local tokens (their own length where a backbone says that it counts)
    fixed: Vectors | None = None  # (V, N, D) unit tokens of the short sets
    keys: Vectors | None = None  # (P, page, D) folded frame keys
    registers: Vectors | None = None  # (V, R, D) folded register keys
    values: Vectors | None = None  # (V, R, D) folded attended values
    routes: Routes | None = None
    query_projection: Tensor | None = None  # (D, D)

    def __len__(self) -> int:
        return len(self.first_page) - 1

    @property
    def device(self) -> torch.device:
        return self.local.values.device

    @property
    def page(self) -> int:
        return self.local.shape[1]

    @property
    def width(self) -> int:
        return self.local.shape[2]

    @property
    def storage(self) -> Storage:
        return storage_of(self.local)

    @property
    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.arrays().values())

    @cached_property
    def packed(self) -> Packed:
        """The fused kernel's form, made when a GPU first scores this gallery and kept as long as the gallery."""
        return pack_gallery(self)

    @cached_property
    def graphs(self) -> TopGraphs:
        """Searches of few queries that were recorded on a GPU."""
        return TopGraphs()

    # -- making one ---------------------------------------------------------------------------------------------------

    @staticmethod
    @torch.no_grad()
    def build(
        backbone: Backbone,
        trace: Trace | None,
        batches: Iterable[VideoBatch],
        *,
        storage: Storage | None = None,
        path: str | Path | None = None,
        page: int | None = None,
    ) -> Gallery:
        """Encode videos batch by batch on the backbone's device.

        With a ``path`` each batch goes to disk as soon as it is encoded, and the returned gallery is mapped from there:
        a corpus never needs to fit into memory. Without a path, at most one of its arrays exists twice.

        Args:
            trace: None makes a gallery of base scores only.
            page: slots of a page; by default as many as the first batch's longest video fills, 128 at most.
        """
        require_separable(backbone)
        parts = _parts(backbone, trace, batches, storage, page)
        if path is not None:
            disk.write_gallery(path, (part.record() for part in parts))
            return Gallery.load(path)
        made = list(parts)
        if not made:
            raise ValueError("no videos were given to build a gallery from")
        return Gallery.cat(made)

    @staticmethod
    @torch.no_grad()
    def of_tokens(
        backbone: Backbone,
        trace: Trace | None,
        tokens: VideoTokens,
        ids: Sequence[str] = (),
        *,
        storage: Storage | None = None,
        page: int | None = None,
    ) -> Gallery:
        """A gallery of encoded videos, in float32 (or float64, if they are) unless ``storage`` names another type."""
        require_separable(backbone)
        with torch.autocast(tokens.frames.device.type, enabled=False):
            made = gallery_factors(backbone, trace, tokens, storage, page)
        evidence = {} if made.evidence is None else vars(made.evidence)
        config = TraceConfig() if trace is None else trace.config
        return Gallery(made.weights, config, tuple(ids), made.first_page, made.local, made.fixed, **evidence)

    @staticmethod
    def cat(parts: list[Gallery]) -> Gallery:
        """Join galleries of one model. Empties the list on the way, so that not everything is held twice."""
        if not parts:
            raise ValueError("no galleries were given to join")
        first = parts[0]
        for part in parts[1:]:
            if part._kind() != first._kind():
                raise ValueError(f"galleries differ in how they were made: {first._kind()} and {part._kind()}")
            disk.require_same_shared(first.record(), part.record())
        pages = torch.cat([part.first_page.diff() for part in parts])
        start = pages.new_zeros(1)
        ids = tuple(name for part in parts for name in part.ids)
        columns = [(field.name, [getattr(part, field.name) for part in parts]) for field in fields(first)]
        parts.clear()
        joined: dict[str, Any] = {}
        for name, column in columns:
            if isinstance(column[0], TensorRecord):
                joined[name] = type(column[0]).cat(column)
                column.clear()
        return replace(first, first_page=torch.cat([start, pages.cumsum(0)]), ids=ids, **joined)

    # -- parts of one -------------------------------------------------------------------------------------------------

    def __getitem__(self, videos: slice) -> Gallery:
        """A run of videos, without a copy."""
        start, stop, step = videos.indices(len(self))
        if step != 1:
            raise ValueError("a gallery is sliced in runs of videos, without a step")
        stop = max(start, stop)
        first, rows = int(self.first_page[start]), slice(start, stop)
        pages = slice(first, int(self.first_page[stop]))
        return self._picked(rows, pages, self.ids[rows], self.first_page[start : stop + 1] - first)

    def take(self, videos: Sequence[int]) -> Gallery:
        """Chosen videos in the order given, copied."""
        rows = torch.tensor(list(videos), dtype=torch.long)
        counts = self.first_page.diff()[rows]
        first_page = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        shift = (self.first_page[rows] - first_page[:-1]).repeat_interleave(counts)
        pages = shift + torch.arange(int(first_page[-1]))
        ids = tuple(self.ids[int(row)] for row in rows) if self.ids else ()
        return self._picked(rows.to(self.device), pages.to(self.device), ids, first_page)

    def _picked(self, rows: slice | Tensor, pages: slice | Tensor, ids: tuple[str, ...], first_page: Tensor) -> Gallery:
        def cut(part: Vectors | None, by: slice | Tensor) -> Vectors | None:
            return None if part is None else part[by]

        routes = self.routes
        if routes is not None:
            routes = Routes(routes.grounding[pages], routes.ceiling[rows], routes.gram[rows])
        local = self.local[pages]
        return replace(
            self,
            ids=ids,
            first_page=first_page,
            local=local,
            keys=local if self.keys is self.local else cut(self.keys, pages),
            fixed=cut(self.fixed, rows),
            registers=cut(self.registers, rows),
            values=cut(self.values, rows),
            routes=routes,
        )

    def to(self, device: torch.device | str | None = None, *, storage: Storage | None = None) -> Gallery:
        """The same gallery on another device, or with its vectors kept in another type."""

        def change(part: Any) -> Any:
            if part is None:
                return None
            if storage is not None and isinstance(part, Vectors) and storage_of(part) != storage:
                part = Vectors.store(part.restore(working_type(part.values.dtype)), storage)
            return part if device is None else part.to(device)

        routes = self.routes
        if routes is not None and storage is not None:
            routes = routes.for_storage(storage, self.config.temperature)
        changed = {name: change(getattr(self, name)) for name in (*_VECTORS, "query_projection")}
        if self.keys is self.local:
            changed["keys"] = changed["local"]
        return replace(self, routes=change(routes), **changed)

    # -- on disk ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a folder, which appears when it is complete."""
        disk.write_gallery(path, iter([self.record()]))

    @staticmethod
    def load(path: str | Path, device: str = "cpu") -> Gallery:
        """Map a gallery into memory (``device`` other than "cpu": copy it there)."""
        record = disk.read_gallery(path)
        found = Gallery.of_arrays(record.about, record.arrays, record.ids, record.shared.get("query_projection"))
        return found if device == "cpu" else found.to(device)

    @staticmethod
    def of_arrays(
        about: dict[str, Any],
        arrays: dict[str, Tensor],
        ids: Sequence[str] = (),
        query_projection: Tensor | None = None,
    ) -> Gallery:
        """A gallery over arrays that exist already, the inverse of ``about`` and ``arrays``.

        Where there are routes but no keys, the local tokens are their own keys: unit tokens without projections.
        """
        vectors: dict[str, Any] = {}
        for name in _VECTORS:
            if f"{name}.values" in arrays:
                vectors[name] = Vectors(arrays[f"{name}.values"], arrays.get(f"{name}.scale"))
        routed = {name.removeprefix("routes."): t for name, t in arrays.items() if name.startswith("routes.")}
        if routed:
            vectors.setdefault("keys", vectors["local"])
        pages = arrays["pages"].long()
        return Gallery(
            weights=TokenWeights(about["paged"], tuple((w, n) for w, n in about["fixed"])),
            config=TraceConfig(**about["trace"]),
            ids=tuple(ids),
            first_page=torch.cat([pages.new_zeros(1), pages.cumsum(0)]),
            routes=Routes(**routed) if routed else None,
            query_projection=query_projection,
            **vectors,
        )

    def _kind(self) -> dict[str, Any]:
        """What galleries must share to be joined."""
        about = {"weights": self.weights, "config": self.config, "page": self.page, "width": self.width}
        registers = None if self.registers is None else self.registers.shape[1]
        return about | {"storage": self.storage, "registers": registers}

    @property
    def about(self) -> dict[str, Any]:
        """What is not in the arrays: weights of the token sets, TRACE's numbers."""
        return {"paged": self.weights.paged, "fixed": self.weights.fixed, "trace": vars(self.config)}

    def arrays(self) -> dict[str, Tensor]:
        """Everything stored, by name. ``PAGED`` ones have a row per page, the others one per video."""
        found = {"pages": self.first_page.diff().to(torch.int32)}
        for name in (*_VECTORS, "routes"):
            part = getattr(self, name)
            if part is not None and not (name == "keys" and part is self.local):
                found |= {f"{name}.{field}": tensor for field, tensor in part.tensors().items()}
        return found

    def record(self) -> disk.GalleryRecord:
        """What is written to disk."""
        shared = {} if self.query_projection is None else {"query_projection": self.query_projection}
        return disk.GalleryRecord(self.about, list(self.ids), self.arrays(), shared)


def _parts(
    backbone: Backbone, trace: Trace | None, batches: Iterable[VideoBatch], storage: Storage | None, page: int | None
) -> Iterator[Gallery]:
    with evaluation_mode(backbone):
        for batch in batches:
            tokens = backbone.encode_video_batch(batch.to(backbone.device))
            part = Gallery.of_tokens(backbone, trace, tokens, batch.ids, storage=storage, page=page)
            page = part.page
            yield part
