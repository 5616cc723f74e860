"""Evidence of aligned pairs from a gallery: the full evidence's diagonal, and the score's share of each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import TokenSet
from prvr.scoring import AlignedPairs, Gallery, ScoringPool, gallery_evidence, score
from prvr.scoring.storage import Storage
from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig

WIDTH, LENGTHS = 16, [16, 1, 9, 40, 33, 64, 5]


@dataclass
class Corpus:
    """A stand-in for a backbone whose score is one maximum over frames, and one over clips where it has them."""

    method = "corpus"
    separable = True
    unit_tokens = True
    clips: bool = True

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        frames = TokenSet(0.4, videos.frames)
        return (TokenSet(0.6, videos.clips), frames) if self.clips else (frames,)


def corpus_tokens() -> VideoTokens:
    torch.manual_seed(0)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    count = len(LENGTHS)
    frames = 1 + torch.randn(count, max(LENGTHS), WIDTH)
    return VideoTokens(
        frames * mask[..., None], mask, 1 + torch.randn(count, 4, WIDTH), 1 + torch.randn(count, 3, WIDTH)
    )


def trained(**options: Any) -> Trace:
    torch.manual_seed(1)
    trace = Trace(WIDTH, TraceConfig(**options))
    for weight in trace.projections.values():
        weight.data += 0.3 * torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    return trace


def pairs_of(gallery: Gallery, count: int = 30) -> AlignedPairs:
    torch.manual_seed(2)
    rows = torch.randint(len(gallery), (count,)).tolist()
    return AlignedPairs(1 + torch.randn(count, WIDTH), gallery, rows, gallery.config.fusion_weight)


def close(found: Tensor, expected: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"gate": True}, {"temperature": 0.02}, {"anchors": "hybrid"}], ids=str)
def test_pairs_are_the_diagonal_of_the_evidence(options: dict[str, Any]) -> None:
    tokens, trace = corpus_tokens(), trained(**options)
    gallery = Gallery.of_tokens(Corpus(), trace, tokens, page=16)  # type: ignore[arg-type]
    pairs = pairs_of(gallery)
    full, found = trace.evidence(pairs.queries, tokens), gallery_evidence(pairs)
    for number, row in enumerate(pairs.rows):
        length = LENGTHS[row]
        for name in ("direct", "expected_support", "routed"):
            close(getattr(found, name)[number, :length], getattr(full, name)[number, row, :length])
        close(found.activation[number], full.activation[number, row])
        assert int(found.slots[number]) == 16 * int(gallery.first_page.diff()[row])


@torch.no_grad()
@pytest.mark.parametrize("storage", ["fp64", "fp32", "fp16", "int8"])
@pytest.mark.parametrize("clips", [True, False])
def test_the_best_value_is_the_score_where_one_token_wins_both_maxima(storage: Storage, clips: bool) -> None:
    """A video of one token leaves no choice: its value is its score."""
    tokens = corpus_tokens()[1:2]
    tokens = VideoTokens(tokens.frames[:, :1], tokens.frame_mask[:, :1], tokens.clips, tokens.registers)
    gallery = Gallery.of_tokens(Corpus(clips), trained(), tokens, storage=storage)  # type: ignore[arg-type]
    pairs = pairs_of(gallery, count=4)
    expected = score(pairs.queries, gallery, "reference")[:, 0]
    close(gallery_evidence(pairs).value[:, 0], expected, atol=1e-2 if storage == "int8" else 1e-3)


def test_a_pool_finds_the_same_for_several_groups() -> None:
    gallery = Gallery.of_tokens(Corpus(), trained(), corpus_tokens(), page=16)  # type: ignore[arg-type]
    groups = [pairs_of(gallery, count) for count in (1, 40, 7)]
    for pairs, found in zip(groups, ScoringPool().evidence(groups), strict=True):
        for name, expected in gallery_evidence(pairs).tensors().items():
            close(getattr(found, name), expected, atol=1e-6)


def test_a_gallery_without_trace_has_no_evidence_to_show() -> None:
    gallery = Gallery.of_tokens(Corpus(), None, corpus_tokens())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="holds base scores only: build it with TRACE"):
        gallery_evidence(pairs_of(gallery))
