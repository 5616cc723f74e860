"""Prepares encoded videos for a gallery: tokens on pages, folded projections, precomputed exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import Backbone, TokenSet
from prvr.errors import UserError
from prvr.scoring.pages import Front, Grid, page_size, to_front
from prvr.scoring.storage import Storage, Vectors
from prvr.tokens import TensorRecord, VideoTokens
from prvr.trace import Trace
from prvr.trace import operator as op

SMALLEST_TEMPERATURE = 0.006  # below it, exp(b/τ) leaves even float64


class NotSeparable(UserError):
    """The backbone scores each query–video pair by itself, so a gallery cannot be prepared."""


def require_separable(backbone: Backbone) -> None:
    if not backbone.separable:
        raise NotSeparable(f"{backbone.method} scores each query–video pair by itself: it cannot be put into a gallery")


@dataclass(frozen=True)
class TokenWeights:
    """How much each token set counts: the one on pages, and the short ones that are the same length in every video."""

    paged: float
    fixed: tuple[tuple[float, int], ...] = ()  # weight and tokens of each, in the order they are stored


@dataclass(frozen=True)
class Routes(TensorRecord):
    """TRACE's share of a gallery. Projected vectors are folded: multiply them by the unit query, then by its scale."""

    grounding: Tensor  # (P, R, page) exp((b − ceiling)/τ); float64 at temperatures that leave float32
    ceiling: Tensor  # (V,) the largest b of a video
    gram: Tensor  # (V, R, R) of the attended values

    def for_storage(self, storage: Storage, temperature: float) -> Routes:
        """In the precision that vectors of a storage type are multiplied in."""
        dtype = torch.float64 if storage == "fp64" else torch.float32
        grounding = self.grounding if needs_float64(temperature) else self.grounding.to(dtype)
        return Routes(grounding, self.ceiling.to(dtype), self.gram.to(dtype))


@dataclass(frozen=True)
class TraceShare:
    """What TRACE needs of a gallery's videos."""

    keys: Vectors  # (P, page, D) folded frame keys
    registers: Vectors  # (V, R, D) folded register keys
    values: Vectors  # (V, R, D) folded attended values
    routes: Routes
    query_projection: Tensor  # (D, D)


@dataclass(frozen=True)
class GalleryFactors:
    """Encoded videos, laid out as a gallery holds them."""

    weights: TokenWeights
    first_page: Tensor  # (V + 1,) on the host
    local: Vectors  # (P, page, D)
    fixed: Vectors | None  # (V, N, D)
    evidence: TraceShare | None


def working_type(dtype: torch.dtype) -> torch.dtype:
    """Tokens are prepared in float32, or float64 if the input is float64."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def needs_float64(temperature: float) -> bool:
    """Whether exponentials over a temperature leave float32."""
    return op.may_underflow(temperature, torch.float32)


def gallery_factors(
    backbone: Backbone, trace: Trace | None, tokens: VideoTokens, storage: Storage | None, page: int | None
) -> GalleryFactors:
    """Lay encoded videos out as a gallery holds them.

    Args:
        storage: None keeps float32, or float64 where the tokens are float64.
        page: slots of a page; None chooses by the length that videos are padded to.
    """
    tokens = tokens.to(torch.float64 if storage == "fp64" else working_type(tokens.frames.dtype))
    kept: Storage = storage or ("fp64" if tokens.frames.dtype == torch.float64 else "fp32")
    sets = backbone.token_sets(tokens)
    paged = _paged(sets, tokens)
    units = [F.normalize(s.tokens, dim=-1) if backbone.unit_tokens else s.tokens for s in sets]
    fixed = [(s.weight, unit) for number, (s, unit) in enumerate(zip(sets, units, strict=True)) if number != paged]

    # A zero token counts as cosine 0: one empty slot replaces all of them. (NaN is not zero, and shows in the scores.)
    # So a backbone whose padded tokens are zero scores a padded video as if it had such a token, as its authors do.
    real = units[paged].square().sum(-1) != 0
    local = to_front(units[paged], real)
    has_zero = local.counts < real.shape[1]
    page = page or page_size(real.shape[1])
    slots = local.counts + (has_zero & (local.counts % page == 0))
    if trace is not None:
        slots = slots.maximum(tokens.evidence_mask.sum(1))
    grid = Grid.over(slots, page)
    pages = torch.bincount(grid.owner, minlength=len(slots)).cpu()
    return GalleryFactors(
        weights=TokenWeights(sets[paged].weight, tuple((weight, unit.shape[1]) for weight, unit in fixed)),
        first_page=torch.cat([pages.new_zeros(1), pages.cumsum(0)]),
        local=Vectors.store(grid.lay(local, repeat=~has_zero), kept),
        fixed=Vectors.store(torch.cat([unit for _, unit in fixed], 1), kept) if fixed else None,
        evidence=None if trace is None else _evidence(trace, tokens, grid, kept),
    )


def _paged(sets: Sequence[TokenSet], tokens: VideoTokens) -> int:
    """Which set goes on pages: the local evidence, or else the longest.

    The local evidence is the same set however far a batch is padded, so that all batches of a corpus agree.
    """
    return max(range(len(sets)), key=lambda n: (sets[n].tokens is tokens.evidence, sets[n].tokens.shape[1], n))


def _evidence(trace: Trace, tokens: VideoTokens, grid: Grid, kept: Storage) -> TraceShare:
    mask, tau = tokens.evidence_mask, trace.config.temperature
    if not bool(mask.any(1).all()):
        empty = (~mask.any(1)).nonzero().flatten().tolist()
        raise ValueError(f"videos {empty[:5]} of a batch have no valid frame: drop them before scoring")
    if tau < SMALLEST_TEMPERATURE:
        raise ValueError(f"temperature {tau} is too low for a gallery: use at least {SMALLEST_TEMPERATURE}")
    factors = trace.factors(tokens)
    projection = trace.projections["query"].detach().to(factors.frames.dtype)
    compatibility = factors.compatibility.masked_fill(~mask[:, None], -torch.inf)
    precise = torch.float64 if needs_float64(tau) else compatibility.dtype
    reached, ceiling = op.grounding_reach(compatibility, tau, precise)  # (V, R, M), (V,)
    keys = to_front(factors.frames, mask)
    everywhere = torch.ones_like(keys.counts, dtype=torch.bool)  # a slot past the end repeats the first frame: no mask
    grounding = grid.lay(Front(to_front(reached.transpose(1, 2), mask).tokens, keys.counts), repeat=everywhere)
    gram = op.gram_matrix(factors.attended)
    return TraceShare(
        keys=Vectors.store(grid.lay(Front(keys.tokens @ projection, keys.counts), repeat=everywhere), kept),
        registers=Vectors.store(factors.registers @ projection, kept),
        values=Vectors.store(factors.attended @ projection, kept),
        routes=Routes(grounding.transpose(1, 2).contiguous(), ceiling, gram).for_storage(kept, tau),
        query_projection=projection,
    )
