"""Evidence is the authors' in every class of query; its extremes stay finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from prvr.losses import (
    ambiguous,
    combined_evidence,
    dirichlet_evidence,
    divide_queries,
    evidential_error,
    softened_targets,
)
from prvr.losses.evidential import Division, uncertainty


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("holmes")


def divisions(case: Any, padding: int = 0) -> tuple[Division, Division]:
    labels = torch.cat([case["case.labels"], torch.full((padding,), -1)])
    found = []
    for branch in ("frame", "clip"):
        scores = torch.cat([case[f"case.{branch}_scores"], torch.rand(padding, 9)])
        temperature, bound = case.config["edl_tau"], case.config["division_beta"]
        found.append(divide_queries(scores, dirichlet_evidence(scores, temperature), labels, bound))
    return found[0], found[1]


@pytest.mark.parametrize("padding", [0, 7])
def test_queries_are_divided_as_the_authors_do(padding: int, case: Any) -> None:
    frames, clips = divisions(case, padding)
    for branch, division in (("frame", frames), ("clip", clips)):
        ours = torch.stack(list(division)).long()
        assert torch.equal(ours[:, :30], case[f"case.post.{branch}_division"].long())
        assert not ours[:, 30:].any()
    assert torch.equal(ambiguous(frames, clips)[:30].long(), case["case.post.ambiguous"].long())


@pytest.mark.parametrize("phase", ["warm", "post"])
def test_targets_and_errors_are_the_authors(phase: str, case: Any) -> None:
    labels, scores = case["case.labels"], {b: case[f"case.{b}_scores"] for b in ("frame", "clip")}
    soften = ambiguous(*divisions(case)) & (phase == "post")
    targets = softened_targets(scores["frame"], scores["clip"], labels, soften, case.config["smooth_beta"])
    if phase == "post":
        case.check("case.post.targets", targets)
    views = {b: dirichlet_evidence(s, case.config["edl_tau"]) for b, s in scores.items()}
    views["comb"] = combined_evidence(views["frame"], views["clip"])
    for name, view in views.items():
        case.check(f"case.{phase}.edl_{name}", evidential_error(view, targets).mean())
    case.check(f"case.{phase}.comb_log1p_evidence", views["comb"].log1p())
    case.check(f"case.{phase}.comb_u", uncertainty(views["comb"]))


def test_the_closed_combination_is_dempster_and_shafers_rule() -> None:
    one, other = torch.rand(2, 6, 5, dtype=torch.float64) * 20
    k = one.shape[1]
    (b1, u1), (b2, u2) = ((e / (e.sum(1, keepdim=True) + k), k / (e.sum(1, keepdim=True) + k)) for e in (one, other))
    conflict = b1.sum(1, keepdim=True) * b2.sum(1, keepdim=True) - (b1 * b2).sum(1, keepdim=True)
    belief = (b1 * b2 + b1 * u2 + b2 * u1) / (1 - conflict)
    doubt = u1 * u2 / (1 - conflict)
    torch.testing.assert_close(combined_evidence(one, other), belief * k / doubt)


def test_without_a_correct_query_the_bounds_alone_decide() -> None:
    scores = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.35, 0.9]])
    labels = torch.tensor([0, 1, 0])
    division = divide_queries(scores, dirichlet_evidence(scores, 0.08), labels, 0.3)
    assert not division.uncertain.any()
    assert division.noisy.tolist()[:2] == [True, True]


@pytest.mark.parametrize("temperature", [0.02, 0.08])
def test_certain_and_opposed_scores_have_finite_gradients(temperature: float) -> None:
    frames = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], requires_grad=True)
    clips = (-frames).detach().requires_grad_()
    both = combined_evidence(dirichlet_evidence(frames, temperature), dirichlet_evidence(clips, temperature))
    evidential_error(both, torch.eye(2)).mean().backward()
    assert torch.isfinite(frames.grad).all()
    assert torch.isfinite(clips.grad).all()
