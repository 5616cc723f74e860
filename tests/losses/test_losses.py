"""Losses: the authors' numbers, hand-computed cases, and batches their code cannot take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import max_cosine, max_dot
from prvr.losses import (
    Negatives,
    info_nce,
    pick_negatives,
    query_diversity,
    query_similarity,
    triplet,
    two_way_nce,
)


def shuffled(labels: Tensor) -> Tensor:
    return torch.randperm(len(labels))


def random_case(queries: int = 9, videos: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    labels = torch.arange(queries) % videos
    return torch.randn(queries, videos), labels.sort().values, torch.randn(queries, 8)


@pytest.mark.parametrize("branch", ["clip", "frame"])
def test_triplet_with_the_drawn_ranks_is_the_authors(branch: str, golden: Callable[[str], Any]) -> None:
    case = golden("dreamprvr")
    scores, labels = case[f"out.{branch}_scores"], case["in.text_labels"]
    positive = labels[:, None] == torch.arange(scores.shape[1])
    # The fixture names negatives by their rank: among other videos' queries, and among videos with the positive first.
    queries = scores.masked_fill(positive, -torch.inf).argsort(0, descending=True)
    videos = scores.masked_fill(positive, torch.inf).argsort(1, descending=True)
    chosen = Negatives(
        queries.gather(0, case[f"triplet_rand.{branch}.v2t_rank"][None]).squeeze(0),
        videos.gather(1, case[f"triplet_rand.{branch}.t2v_rank"][:, None]).squeeze(1),
    )
    case.check(f"triplet_rand.{branch}.value", triplet(scores, labels, 0.2, chosen))


def test_zero_slots_win_over_negative_scores(golden: Callable[[str], Any]) -> None:
    case = golden("dreamprvr")
    case.check("score_case.cos", max_cosine(case["score_case.query"], case["score_case.context"]))
    case.check("score_case.raw", max_dot(case["score_case.query"], case["score_case.context"]))


def test_two_way_nce_is_its_formula_written_as_loops() -> None:
    scores, labels, _ = random_case()
    rows = [torch.logsumexp(scores[n], 0) - scores[n, y] for n, y in enumerate(labels.tolist())]
    columns = [torch.logsumexp(scores[:, b], 0) - torch.logsumexp(scores[labels == b, b], 0) for b in range(5)]
    assert two_way_nce(scores, labels) == pytest.approx(float(sum(rows) / 9 + sum(columns) / 5), abs=1e-5)


def test_query_losses_are_their_formulas_written_as_loops() -> None:
    _, labels, queries = random_case()
    unit = F.normalize(queries, dim=-1).double()
    diversity, similarity, counted = 0.0, 0.0, 0
    for i in range(9):
        siblings = [j for j in range(9) if j != i and labels[i] == labels[j]]
        for j in siblings:
            c = float(unit[i] @ unit[j])
            diversity += (1 + c) ** 1.5 * math.log1p(math.exp(4 * (c + 0.2))) / 9
        if siblings:
            logits = unit @ unit[i] / 0.5
            norm = torch.logsumexp(torch.cat([logits[:i], logits[i + 1 :]]), 0)
            similarity -= float(sum(logits[j] - norm for j in siblings)) / len(siblings)
            counted += 1
    assert query_diversity(queries, labels, offset=0.2, scale=4, power=1.5) == pytest.approx(diversity, abs=1e-4)
    assert query_similarity(queries, labels, 0.5) == pytest.approx(similarity / counted, abs=1e-4)


def test_losses_do_not_depend_on_the_order_of_queries() -> None:
    scores, labels, queries = random_case()
    order = shuffled(labels)
    for value, again in (
        (two_way_nce(scores, labels), two_way_nce(scores[order], labels[order])),
        (query_similarity(queries, labels, 0.1), query_similarity(queries[order], labels[order], 0.1)),
        (info_nce(scores, labels, 0.07), info_nce(scores[order], labels[order], 0.07)),
    ):
        assert torch.allclose(value, again, atol=1e-5)


@pytest.mark.parametrize("hard_pool", [None, 1, 3, 20])
def test_negatives_are_never_positives(hard_pool: int | None) -> None:
    scores, labels, _ = random_case(40, 7)
    for _ in range(20):
        chosen = pick_negatives(scores, labels, hard_pool=hard_pool)
        assert (chosen.video_of_query != labels).all()
        assert (labels[chosen.query_of_video] != torch.arange(7)).all()


def test_hard_negatives_are_the_hardest_and_the_pool_is_drawn_from() -> None:
    scores, labels, _ = random_case(40, 30)
    rivals = scores.masked_fill(labels[:, None] == torch.arange(30), -torch.inf)
    assert torch.equal(pick_negatives(scores, labels, hard_pool=1).video_of_query, rivals.argmax(1))
    pool = rivals.topk(5).indices
    drawn = torch.stack([pick_negatives(scores, labels, hard_pool=5).video_of_query for _ in range(60)])
    assert (drawn[..., None] == pool).any(-1).all()
    assert len(set(drawn[:, 0].tolist())) == 5
    assert torch.equal(pick_negatives(scores, labels, hard_pool=5).query_of_video, rivals.argmax(0))


def test_the_same_generator_draws_the_same_negatives() -> None:
    scores, labels, _ = random_case(40, 7)
    twice = [pick_negatives(scores, labels, hard_pool=None, generator=torch.Generator().manual_seed(3)) for _ in "ab"]
    assert torch.equal(twice[0].video_of_query, twice[1].video_of_query)


def test_a_batch_of_one_video_has_no_negatives_and_no_error() -> None:
    scores, labels = torch.randn(3, 1, requires_grad=True), torch.zeros(3, dtype=torch.long)
    loss = triplet(scores, labels, 0.2, pick_negatives(scores, labels, hard_pool=20)) + two_way_nce(scores, labels)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(scores.grad).all()


def test_lone_queries_and_undescribed_videos_give_finite_gradients() -> None:
    queries, labels = torch.randn(1, 8, requires_grad=True), torch.zeros(1, dtype=torch.long)
    scores = torch.randn(1, 4, requires_grad=True)
    loss = query_similarity(queries, labels, 0.1) + query_diversity(queries, labels, offset=0.2, scale=32, power=1)
    (loss + two_way_nce(scores, labels)).backward()
    assert torch.isfinite(queries.grad).all()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("hard_pool", [None, 3])
def test_padding_queries_change_nothing(hard_pool: int | None) -> None:
    scores, labels, queries = random_case()
    more_scores, more_queries = torch.cat([scores, torch.randn(4, 5)]), torch.cat([queries, torch.randn(4, 8)])
    padded = torch.cat([labels, torch.full((4,), -1)])
    assert torch.allclose(two_way_nce(more_scores, padded), two_way_nce(scores, labels))
    assert torch.allclose(info_nce(more_scores, padded, 0.07), info_nce(scores, labels, 0.07))
    assert torch.allclose(
        query_similarity(more_queries, padded, 0.1), query_similarity(queries, labels, 0.1), atol=1e-6
    )
    diverse = [
        query_diversity(q, y, offset=0.2, scale=32, power=1) for q, y in ((queries, labels), (more_queries, padded))
    ]
    assert torch.allclose(diverse[0], diverse[1])
    for _ in range(10):
        chosen = pick_negatives(more_scores, padded, hard_pool=hard_pool)
        assert (chosen.query_of_video < 9).all()
        same = Negatives(chosen.query_of_video, chosen.video_of_query[:9])
        assert torch.allclose(triplet(more_scores, padded, 0.2, chosen), triplet(scores, labels, 0.2, same))
