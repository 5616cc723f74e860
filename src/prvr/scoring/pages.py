"""Ragged videos on pages of fixed size: kernels see full tiles, and a long video is several pages in a row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LARGEST_PAGE = 128
SMALLEST_PAGE = 16  # the narrowest tile that matrix units take


def page_size(tokens: int) -> int:
    """Slots of a page for videos of about this many tokens: a power of two, at most 128.

    >>> [page_size(n) for n in (1, 24, 100, 128, 4000)]
    [16, 32, 128, 128, 128]
    """
    return min(LARGEST_PAGE, max(SMALLEST_PAGE, 1 << max(0, tokens - 1).bit_length()))


class Front(NamedTuple):
    """Kept tokens moved to the front of each video."""

    tokens: Tensor  # (V, N, …)
    counts: Tensor  # (V,)


def to_front(tokens: Tensor, keep: Tensor) -> Front:
    """Move each video's kept tokens to the front, in order: (V, N, …), (V, N) → (V, N, …)."""
    counts = keep.sum(1)
    slots = torch.arange(keep.shape[1], device=keep.device)
    if bool((keep == (slots < counts[:, None])).all()):
        return Front(tokens, counts)
    order = (~keep).to(torch.uint8).argsort(dim=1, stable=True)
    return Front(torch.take_along_dim(tokens, order.view(*order.shape, *[1] * (tokens.ndim - 2)), 1), counts)


class Grid(NamedTuple):
    """Which video and which of its tokens is in each slot of each page."""

    owner: Tensor  # (P,) video of a page
    token: Tensor  # (P, page) number of the token within its video; past the video's end the count goes on

    @staticmethod
    def over(counts: Tensor, page: int) -> Grid:
        """As many pages for each video as its tokens need, (V,).

        >>> Grid.over(torch.tensor([1, 3]), page=2)
        Grid(owner=tensor([0, 1, 1]), token=tensor([[0, 1],
                [0, 1],
                [2, 3]]))
        """
        pages = (counts + page - 1).div(page, rounding_mode="floor")
        owner = torch.arange(len(counts), device=counts.device).repeat_interleave(pages)
        before = pages.cumsum(0) - pages
        number = torch.arange(len(owner), device=counts.device) - before[owner]
        return Grid(owner, number[:, None] * page + torch.arange(page, device=counts.device))

    def lay(self, front: Front, repeat: Tensor | None = None) -> Tensor:
        """Tokens (V, N, …) on pages (P, page, …).

        Slots past a video's end are zero, or repeat its first token where ``repeat`` (V,) is True. Neither can win a
        maximum that it should not win.
        """
        past = self.token >= front.counts[self.owner][:, None]
        laid = front.tokens[self.owner[:, None], self.token.masked_fill(past, 0)]
        empty = past if repeat is None else past & ~repeat[self.owner][:, None]
        return laid.masked_fill_(empty.view(*empty.shape, *[1] * (laid.ndim - 2)), 0)
