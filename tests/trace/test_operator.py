"""TRACE: the golden numbers, and what the paper proves of the operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig, explain_pair, fuse, trace_evidence, trace_factors, trace_score
from prvr.trace import operator as op

FIELDS = {  # ours -> the fixture's
    "direct": "d",
    "support": "rho",
    "routed": "routed",
    "attention": "attention",
    "affinity": "a",
    "activation": "pi",
    "compatibility": "b",
    "route": "route",
    "soft": "soft",
    "score": "trace",
    "expected_support": "expected_support",
}


class Case(NamedTuple):
    queries: Tensor
    registers: Tensor
    frames: Tensor
    mask: Tensor


@st.composite
def cases(draw: Any) -> Case:
    """Random inputs in float64: some one-frame videos, garbage on padding."""
    q, v, r, m, d = (draw(st.integers(1, high)) for high in (4, 4, 6, 9, 7))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    lengths = torch.randint(1, m + 1, (v, 1), generator=generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Case(normal(q, d + 1), normal(v, r, d + 1), normal(v, m, d + 1), torch.arange(m) < lengths)


def valid(values: Tensor, mask: Tensor) -> Tensor:
    return values[:, mask]


def test_every_step_is_the_golden_one(golden: Callable[[str], Any]) -> None:
    case = golden("trace")
    mask = torch.arange(12) < case["lengths"][:, None]
    names = ("query", "register_key", "frame_key", "frame_value")
    projections = {name: case[f"projection.{name}.weight"] for name in names}
    config = TraceConfig(case.config["lam"], case.config["gamma"], case.config["eta"], case.config["tau_r"])
    evidence = trace_evidence(case["query"], case["registers"], case["frames"], mask, projections, config)
    for ours, theirs in FIELDS.items():
        torch.testing.assert_close(getattr(evidence, ours), case[theirs], atol=1e-9, rtol=0, equal_nan=True)
    assert torch.equal(evidence.peak, case["peak"])
    torch.testing.assert_close(fuse(case["base"], evidence.score, 0.03), case["final"], atol=1e-9, rtol=0)


def test_masks_may_be_numbers(golden: Callable[[str], Any]) -> None:
    case = golden("trace")
    mask = torch.arange(12) < case["lengths"][:, None]
    as_bool = trace_evidence(case["query"], case["registers"], case["frames"], mask)
    as_float = trace_evidence(case["query"], case["registers"], case["frames"], mask.double())
    assert torch.equal(as_bool.score, as_float.score)


@given(cases())
@settings(max_examples=60, deadline=None)
def test_no_routing_is_plain_max_pooling(case: Case) -> None:
    evidence = trace_evidence(*case, config=TraceConfig(routing_strength=0.0))
    assert torch.equal(evidence.route, evidence.direct.nan_to_num(-math.inf).amax(-1))


@given(cases())
@settings(max_examples=20, deadline=None)
def test_no_fusion_is_the_base_score_bit_for_bit(case: Case) -> None:
    base = torch.randn(len(case.queries), len(case.frames))
    assert fuse(base, trace_evidence(*case).score, 0.0) is base


@given(cases(), st.sampled_from([0.02, 0.07, 0.5]))
@settings(max_examples=60, deadline=None)
def test_log_sum_exp_lies_between_the_best_path_and_that_plus_tau_log_r(case: Case, temperature: float) -> None:
    evidence = trace_evidence(*case, config=TraceConfig(temperature=temperature))
    best = (evidence.affinity[..., None] + evidence.compatibility).amax(2)
    support = evidence.support
    slack = temperature * math.log(case.registers.shape[1])
    assert (valid(support, case.mask) >= valid(best, case.mask) - 1e-9).all()
    assert (valid(support, case.mask) <= valid(best, case.mask) + slack + 1e-9).all()


@given(cases(), st.floats(0.01, 2))
@settings(max_examples=60, deadline=None)
def test_theorem_1_the_order_flips_exactly_when_support_outweighs_the_direct_lead(case: Case, gamma: float) -> None:
    """For every pair of videos and the frames where their direct evidence peaks."""
    evidence = trace_evidence(*case, config=TraceConfig(routing_strength=gamma))
    peak = evidence.direct.nan_to_num(-math.inf).argmax(-1, keepdim=True)
    d, rho, routed = (t.gather(-1, peak).squeeze(-1) for t in (evidence.direct, evidence.support, evidence.routed))
    for one in range(d.shape[1]):
        for other in range(d.shape[1]):
            condition = gamma * (rho[:, one] - rho[:, other]) - (d[:, other] - d[:, one])
            clear = condition.abs() > 1e-9
            assert torch.equal((routed[:, one] > routed[:, other])[clear], (condition > 0)[clear])


@given(cases())
@settings(max_examples=40, deadline=None)
def test_the_soft_score_is_a_cosine(case: Case) -> None:
    assert (trace_evidence(*case).soft.abs() <= 1).all()


def test_values_that_cancel_do_not_explode() -> None:
    value = torch.randn(1, 1, 32)
    attended = torch.cat([value, -value + 1e-6 * torch.randn(1, 1, 32)], 1).requires_grad_()
    soft = op.soft_score(op.projected_unit(torch.randn(5, 32)), torch.full((5, 1, 2), 0.5), attended)
    soft.sum().backward()
    assert (soft.abs() <= 1).all()
    assert torch.isfinite(attended.grad).all()


@given(cases())
@settings(max_examples=40, deadline=None)
def test_garbage_on_padding_changes_nothing(case: Case) -> None:
    clean = trace_evidence(*case)
    garbage = torch.where(case.mask[..., None], case.frames, torch.nan)
    dirty = trace_evidence(case.queries, case.registers, garbage, case.mask)
    for name, value in clean.tensors().items():
        torch.testing.assert_close(getattr(dirty, name), value, atol=0, rtol=0, equal_nan=True)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_the_order_of_registers_does_not_matter(case: Case) -> None:
    order = torch.randperm(case.registers.shape[1])
    one = trace_evidence(*case)
    other = trace_evidence(case.queries, case.registers[:, order], case.frames, case.mask)
    torch.testing.assert_close(one.score, other.score, atol=1e-9, rtol=0)
    torch.testing.assert_close(one.activation[..., order], other.activation, atol=1e-9, rtol=0)


@given(cases(), st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100))
@settings(max_examples=40, deadline=None)
def test_the_length_of_inputs_does_not_matter(case: Case, a: float, b: float, c: float) -> None:
    one = trace_evidence(*case)
    other = trace_evidence(a * case.queries, b * case.registers, c * case.frames, case.mask)
    torch.testing.assert_close(one.score, other.score, atol=1e-9, rtol=0)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_the_factorised_score_is_the_evidence_score(case: Case) -> None:
    score = trace_score(case.queries, trace_factors(case.registers, case.frames, case.mask))
    torch.testing.assert_close(score, trace_evidence(*case).score, atol=1e-9, rtol=0)


@given(cases(), st.sampled_from([0.001, 0.01, 0.07]))
@settings(max_examples=40, deadline=None)
def test_float32_support_is_right_at_any_temperature(case: Case, temperature: float) -> None:
    exact = trace_evidence(*case, config=TraceConfig(temperature=temperature)).support
    single = trace_evidence(
        case.queries.float(),
        case.registers.float(),
        case.frames.float(),
        case.mask,
        config=TraceConfig(temperature=temperature),
    ).support
    torch.testing.assert_close(single.double(), exact, atol=2e-5, rtol=0, equal_nan=True)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_gradients_are_finite_everywhere(case: Case) -> None:
    inputs = [t.float().requires_grad_() for t in case[:3]]
    trace = Trace(case.queries.shape[-1])
    trace_score(inputs[0], trace_factors(*inputs[1:], case.mask, trace.projections), trace.projections).sum().backward()
    assert all(torch.isfinite(t.grad).all() for t in inputs)
    assert all(torch.isfinite(p.grad).all() for p in trace.parameters())


def test_zero_vectors_do_not_break_gradients() -> None:
    """A dead register or frame has no direction; it must not poison the rest."""
    queries, registers, frames = torch.randn(2, 4), torch.zeros(1, 2, 4), torch.randn(1, 3, 4)
    registers.requires_grad_()
    trace_score(queries, trace_factors(registers, frames, torch.ones(1, 3))).sum().backward()
    assert torch.isfinite(registers.grad).all()


def test_evidence_of_a_video_without_frames_is_refused() -> None:
    with pytest.raises(ValueError, match=r"videos \[1\] have no valid frame"):
        trace_evidence(
            torch.randn(1, 4), torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.eye(2, 5) * torch.tensor([[1], [0]])
        )


def test_a_misnamed_or_misshapen_projection_is_refused() -> None:
    inputs = (torch.randn(1, 4), torch.randn(1, 3, 4), torch.randn(1, 5, 4), torch.ones(1, 5))
    with pytest.raises(ValueError, match="unknown projection 'frame'"):
        trace_evidence(*inputs, projections={"frame": torch.eye(4)})
    with pytest.raises(ValueError, match=r"has shape \(3, 3\), expected \(4, 4\)"):
        trace_evidence(*inputs, projections={"query": torch.eye(3)})


def test_trace_adds_four_square_projections_that_start_as_identity() -> None:
    trace = Trace(384)
    assert sum(p.numel() for p in trace.parameters()) == 4 * 384**2
    assert all(torch.equal(weight, torch.eye(384)) for weight in trace.projections.values())
    assert not torch.equal(Trace(8, TraceConfig(init="random")).projections["query"], torch.eye(8))


def test_an_explanation_tells_the_supported_peak_from_the_unsupported_one() -> None:
    """Frame 2 answers the query best by itself, but the register the query activates grounds to frame 0."""
    query = torch.tensor([1.0, 0.0, 0.0])
    frames = torch.tensor([[[0.9, 0.4, 0.0], [0.0, 0.0, 1.0], [0.95, -0.3, 0.0]]])
    registers = torch.tensor([[[0.8, 0.6, 0.0]]])
    tokens = VideoTokens(frames, torch.ones(1, 3, dtype=torch.bool), frames, registers)
    told = explain_pair(query, tokens, Trace(3), base=0.5)
    assert (told.direct_peak, told.routed_peak, told.moved) == (2, 0, True)
    assert told.unsupported_gap > 0.2
    assert told.final == pytest.approx(0.5 + 0.03 * (told.route + 0.2 * told.soft), abs=1e-6)
    assert "TRACE trusts frame 0" in str(told)


def test_tokens_without_registers_are_refused() -> None:
    tokens = VideoTokens(torch.randn(1, 3, 4), torch.ones(1, 3, dtype=torch.bool), torch.randn(1, 2, 4))
    with pytest.raises(ValueError, match="no registers"):
        Trace(4)(torch.randn(1, 4), tokens)


@given(cases())
@settings(max_examples=30, deadline=None)
def test_the_gate_scales_the_evidence_between_nothing_and_all_of_it(case: Case) -> None:
    plain, gated = (trace_evidence(*case, config=TraceConfig(gate=gate)) for gate in (False, True))
    certain = op.certainty(plain.activation)
    assert bool(((certain >= 0) & (certain <= 1)).all())
    assert torch.equal(gated.score, plain.score * certain)
    assert torch.equal(gated.route, plain.route)  # only what enters the ranking is scaled
    if case.registers.shape[1] == 1:
        assert torch.equal(certain, torch.ones_like(certain))


def test_the_gate_passes_gradients_even_where_a_register_is_never_activated() -> None:
    affinity = torch.tensor([[[1.0, -1.0, -1.0]]], requires_grad=True)
    op.certainty(op.register_activation(affinity, 0.005)).sum().backward()
    assert affinity.grad is not None
    assert bool(affinity.grad.isfinite().all())


def test_an_explanation_says_that_certainty_scaled_the_evidence() -> None:
    tokens = VideoTokens(torch.randn(1, 5, 4), torch.ones(1, 5, dtype=torch.bool), torch.randn(1, 2, 4))
    trace = Trace(4, TraceConfig(gate=True, anchors="hybrid"))  # no registers: anchors of both kinds stand in
    found = explain_pair(torch.randn(4), tokens, trace, base=0.5)
    assert len(found.activation) == 8
    expected = 0.5 + 0.03 * found.certainty * (found.route + 0.2 * found.soft)
    assert found.final == pytest.approx(expected, abs=1e-6)
    assert f"certainty {found.certainty:.3f} scales the evidence" in str(found)
