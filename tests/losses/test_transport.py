"""Transport over rows is the authors' transport over padded groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.losses import dirichlet_evidence, evidential_error, mean_per_video, query_clip_similarity, transport_plan
from prvr.losses.transport import dustbin_values, log_transport


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("holmes")


def rows(case: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The stand-alone case, its padded groups of queries undone."""
    mask = case["ot_case.text_mask"] > 0
    labels = torch.arange(len(mask))[:, None].expand_as(mask)[mask]
    return case["ot_case.texts"][mask], case["ot_case.clips"], labels


def worst(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max())


def test_similarities_plan_and_loss_are_the_authors(case: Any) -> None:
    queries, clips, labels = rows(case)
    mask = case["ot_case.text_mask"] > 0
    similarity = query_clip_similarity(queries, clips, labels)
    plan = transport_plan(similarity, labels, len(clips), scale=0.1, dustbin_share=0.3)
    assert worst(similarity, case["ot_case.similarity"][mask]) < 1e-4
    assert worst(plan, case["ot_case.plan"][mask]) < 1e-4
    error = evidential_error(dirichlet_evidence(similarity, case.config["edl_intra_video_tau"]), plan)
    case.check("ot_case.edl_intra", mean_per_video(error, labels, len(clips)))


def test_every_step_of_the_batch_is_the_authors(case: Any) -> None:
    mask, labels = case["ot.text_mask"] > 0, case["in.text_labels"]
    similarity = query_clip_similarity(case["out.query"], case["out.clip"], labels)
    assert worst(similarity, case["ot.similarity"][mask]) < 1e-4
    dustbin = dustbin_values(similarity, labels, 4, 0.3)
    case.check("ot.dustbin", dustbin)
    assert worst(log_transport(similarity, labels, dustbin, 0.1), case["ot.log_plan"][mask]) < 1e-4
    plan = transport_plan(similarity, labels, 4, scale=0.1, dustbin_share=0.3)
    assert worst(plan, case["ot.plan"][mask]) < 1e-4


def test_order_and_padding_of_rows_do_not_matter(case: Any) -> None:
    queries, clips, labels = rows(case)
    mixed = torch.randperm(len(labels))
    padded = torch.cat([queries[mixed], torch.randn(3, queries.shape[1])])
    marked = torch.cat([labels[mixed], torch.full((3,), -1)])
    one, other = query_clip_similarity(queries, clips, labels), query_clip_similarity(padded, clips, marked)
    assert worst(other[: len(mixed)], one[mixed]) < 1e-6
    plan, again = (
        transport_plan(s, y, len(clips), scale=0.1, dustbin_share=0.3) for s, y in ((one, labels), (other, marked))
    )
    assert worst(again[: len(mixed)], plan[mixed]) < 1e-5
    assert not again[len(mixed) :].any()


def test_a_video_without_queries_and_equal_similarities_stay_finite() -> None:
    queries, clips = torch.ones(2, 4, requires_grad=True), torch.ones(3, 5, 4, requires_grad=True)
    labels = torch.tensor([1, -1])
    similarity = query_clip_similarity(queries, clips, labels)
    plan = transport_plan(similarity, labels, 3, scale=0.1, dustbin_share=0.3)
    loss = mean_per_video(evidential_error(dirichlet_evidence(similarity, 0.08), plan), labels, 3)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(queries.grad).all()
    assert torch.isfinite(clips.grad).all()


def test_sharp_plans_do_not_overflow() -> None:
    similarity = torch.rand(6, 8)
    plan = transport_plan(similarity, torch.tensor([0, 0, 0, 1, 1, 2]), 3, scale=1e-3, dustbin_share=0.3)
    assert torch.isfinite(plan).all()
