"""The one-to-one matching is the best there is, on any device, for any batch."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import Tensor

from prvr.losses import best_matching, matching_loss


def best_total(similarity: Tensor) -> float:
    """By trying everything."""
    rows, columns = similarity.shape
    if rows > columns:
        return best_total(similarity.T)
    return max(float(similarity[range(rows), list(chosen)].sum()) for chosen in permutations(range(columns), rows))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize("ties", [False, True])
def test_every_video_gets_its_best_matching(seed: int, columns: int, ties: bool) -> None:
    torch.manual_seed(seed)
    labels = torch.randint(-1, 3, (12,))  # unsorted, with padding, often more queries than columns
    similarity = torch.randn(12, columns)
    similarity = similarity.round() if ties else similarity
    chosen = best_matching(similarity, labels, 4)
    assert (chosen[labels < 0] == -1).all()
    for video in range(4):
        rows = (labels == video).nonzero().flatten()
        matched = rows[chosen[rows] >= 0]
        assert len(matched) == min(len(rows), columns)
        assert len(set(chosen[matched].tolist())) == len(matched)
        if len(rows):
            total = float(similarity[matched, chosen[matched]].sum())
            assert total == pytest.approx(best_total(similarity[rows]), abs=1e-5)


def test_videos_with_one_query_do_not_count_and_none_gives_zero() -> None:
    queries, clips = torch.randn(4, 6), torch.randn(3, 5, 6)
    paired = matching_loss(queries[:2], torch.tensor([1, 1]), clips)
    assert torch.allclose(matching_loss(queries, torch.tensor([1, 1, 0, -1]), clips), paired)
    assert float(matching_loss(queries[:3], torch.tensor([0, 1, 2]), clips)) == 0


def test_gradients_reach_the_matched_pairs_only() -> None:
    queries, clips = torch.randn(2, 6, requires_grad=True), torch.randn(2, 5, 6, requires_grad=True)
    matching_loss(queries, torch.tensor([1, 1]), clips).backward()
    assert queries.grad is not None
    assert clips.grad is not None
    assert queries.grad.any(1).all()
    assert clips.grad.any(2).sum(1).tolist() == [0, 2]


def test_broken_numbers_end_the_search_too() -> None:
    best_matching(torch.full((3, 2), torch.nan), torch.tensor([0, 0, 0]), 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("columns", [4, 32])
def test_the_gpu_kernel_gives_the_hosts_matching_without_asking_it(columns: int) -> None:
    labels, similarity = torch.randint(-1, 8, (60,)), torch.randn(60, columns)
    on_gpu = (similarity.cuda(), labels.cuda())
    best_matching(*on_gpu, 8)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        chosen = best_matching(*on_gpu, 8)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(chosen.cpu(), best_matching(similarity, labels, 8))
