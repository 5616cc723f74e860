"""Pairs scored in blocks are pairs scored at once; a re-ranking keeps what it does not touch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import Backbone, build
from prvr.scoring import encode_query_batches, join_videos, pairwise_scores, ranks, rerank
from prvr.tokens import QueryBatch, VideoBatch

SHAPE: dict[str, Any] = {"visual_width": 20, "query_width": 24, "width": 32, "heads": 4, "frames": 12}
METHODS: dict[str, dict[str, Any]] = {
    "conquer": {"inner_width": 40, "head_width": 8, "layers": 1},
    "cap4video": {"layers": 1},
    "clip4clip": {"head": "tightTransf", "layers": 1},
    "ral": {"clips": 4, "windows": (0.0, 2.0)},
    "uem": {},
}


@pytest.fixture(params=METHODS)
def backbone(request: pytest.FixtureRequest) -> Backbone:
    return build(request.param, **SHAPE, **METHODS[request.param], init_std=0.2).train()


def videos() -> list[VideoBatch]:
    """Two batches, each padded to its own longest video."""
    g = torch.Generator().manual_seed(0)
    batches = []
    for lengths in ([9, 4, 7], [5, 1, 3, 2]):
        mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
        frames = torch.randn(*mask.shape, 20, generator=g) * mask[..., None]
        batches.append(VideoBatch(frames, mask, torch.zeros(len(lengths), 4, 20)))
    return batches


def queries() -> list[QueryBatch]:
    """Two batches of different word counts."""
    g = torch.Generator().manual_seed(1)
    sizes = ((3, 6), (2, 4))
    return [QueryBatch(torch.randn(n, words, 24, generator=g), torch.ones(n, words).bool()) for n, words in sizes]


def at_once(backbone: Backbone, encoded: Tensor) -> Tensor:
    with torch.no_grad():
        tokens = join_videos([backbone.eval().encode_video_batch(batch) for batch in videos()])
        return backbone.base_score(encoded, tokens)


@pytest.mark.parametrize("budget", [1, 200_000, 1 << 30])
def test_any_memory_budget_gives_the_same_scores(budget: int, backbone: Backbone) -> None:
    encoded = encode_query_batches(backbone, queries())
    found = pairwise_scores(backbone, encoded, videos(), budget)
    assert backbone.training  # left as it was
    assert found.shape == (5, 7)
    torch.testing.assert_close(found, at_once(backbone, encoded), atol=1e-5, rtol=1e-4)


def test_a_query_scores_the_same_whatever_it_was_padded_with(backbone: Backbone) -> None:
    encoded = encode_query_batches(backbone, queries())
    alone = encode_query_batches(backbone, queries()[1:])
    both = (pairwise_scores(backbone, encoded, videos())[3:], pairwise_scores(backbone, alone, videos()))
    torch.testing.assert_close(*both, atol=1e-5, rtol=1e-4)


def test_blocks_stay_within_the_budget(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_query_batches(backbone, queries())
    score, blocks = backbone.base_score, []

    def watched(rows: Tensor, tokens: Any) -> Tensor:
        blocks.append((len(rows), len(tokens)))
        return score(rows, tokens)

    monkeypatch.setattr(backbone, "base_score", watched)
    monkeypatch.setattr(backbone, "pair_elements", lambda words, frames: 25)  # 100 bytes a pair
    pairwise_scores(backbone, encoded, videos(), 600)
    assert all(q * v <= 6 for q, v in blocks)
    assert max(q * v for q, v in blocks) > 2
    assert sum(q * v for q, v in blocks) == 5 * 7


def test_the_best_are_reordered_and_the_rest_keep_their_order(backbone: Backbone) -> None:
    encoded, own = encode_query_batches(backbone, queries()), None
    first = torch.rand(5, 7)
    first[0] = 0.5  # equal scores: gallery order
    final, own = rerank(backbone, encoded, videos(), first, k=3), at_once(backbone, encoded)
    for row in range(5):
        order = first[row].argsort(descending=True, stable=True).tolist()
        best = sorted(order[:3], key=lambda video: -float(own[row, video]))
        assert final[row].argsort(descending=True, stable=True).tolist() == best + order[3:]
        torch.testing.assert_close(final[row, order[:3]], own[row, order[:3]], atol=1e-5, rtol=1e-4)
    truth = torch.tensor([0, 1, 2, 3, 4])
    assert torch.equal(ranks(first, truth) <= 3, ranks(final, truth) <= 3)


def test_reranking_everything_is_scoring_everything(backbone: Backbone) -> None:
    encoded = encode_query_batches(backbone, queries())
    final = rerank(backbone, encoded, videos(), torch.rand(5, 7), k=100)
    torch.testing.assert_close(final, pairwise_scores(backbone, encoded, videos()), atol=1e-5, rtol=1e-4)


def test_a_first_stage_of_another_split_and_no_videos_are_refused(backbone: Backbone) -> None:
    encoded = encode_query_batches(backbone, queries())
    with pytest.raises(ValueError, match=r"shape \(5, 6\), but there are 5 queries and 7 videos"):
        rerank(backbone, encoded, videos(), torch.rand(5, 6))
    with pytest.raises(ValueError, match="no videos"):
        pairwise_scores(backbone, encoded, [])
