"""Ablation rows and corruptions are what their equations say, whatever shortcut computes them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig
from prvr.trace import operator as op
from prvr.trace.variants import (
    ABLATIONS,
    CORRUPTIONS,
    VARIANTS,
    VariantFactors,
    derangement,
    frame_shuffle,
    route_name,
    variant_factors,
    variant_parts,
)

SEED = 7


def made_up(temperature: float = 0.07) -> tuple[Tensor, VideoTokens, Trace]:
    """Three queries, five videos of up to nine frames with NaN on padding, random projections, float64."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(9) < torch.tensor([9, 4, 7, 1, 9])[:, None]
    frames = torch.randn(5, 9, 6, generator=generator).double().masked_fill(~mask[..., None], torch.nan)
    registers = torch.randn(5, 3, 6, generator=generator).double()
    trace = Trace(6, TraceConfig(temperature=temperature, init="random")).double()
    return torch.randn(3, 6, generator=generator).double(), VideoTokens(frames, mask, registers, registers), trace


def parts_of(
    queries: Tensor, videos: VideoTokens, trace: Trace, strengths: tuple[float, ...] = ()
) -> tuple[dict[str, Tensor], VariantFactors]:
    factors = variant_factors(trace, videos, seed=SEED, batch=2)
    projected = op.projected_unit(queries, trace.projections["query"])
    return variant_parts(projected, factors, trace.config, strengths), factors


def written_out(affinity: Tensor, compatibility: Tensor, direct: Tensor, mask: Tensor, config: TraceConfig) -> Tensor:
    """max_i d_i + γ·τ·logsumexp_k((a_k + b_ki)/τ), with every path spelled out."""
    paths = (affinity[..., None] + compatibility) / config.temperature
    routed = direct + config.routing_strength * config.temperature * paths.logsumexp(2)
    return routed.masked_fill(~mask, -torch.inf).amax(-1)


@pytest.mark.parametrize("temperature", [0.07, 0.004], ids=["usual", "one that underflows"])
def test_parts_of_the_intact_route_are_those_of_the_evidence(temperature: float) -> None:
    queries, videos, trace = made_up(temperature)
    with torch.no_grad():
        evidence = trace.evidence(queries, videos)
        found, _ = parts_of(queries, videos, trace, (0.0, 0.9))
        strong = Trace(6, TraceConfig(temperature=temperature, routing_strength=0.9)).double()
        strong.load_state_dict(trace.state_dict())
        at_09 = strong.evidence(queries, videos).route
    expected = {
        "direct": evidence.direct.nan_to_num(-torch.inf).amax(-1),
        "route": evidence.route,
        "soft": evidence.soft,
        "registers": temperature * (evidence.affinity / temperature).logsumexp(-1),
        "average": evidence.routed.nanmean(-1),
        route_name(0.0): evidence.direct.nan_to_num(-torch.inf).amax(-1),
        route_name(0.9): at_09,
    }
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-12), name


@torch.no_grad()
def test_uniform_activation_replaces_affinity_by_its_mean() -> None:
    queries, videos, trace = made_up()
    found, _ = parts_of(queries, videos, trace)
    e, mask = trace.evidence(queries, videos), videos.frame_mask
    even = e.affinity.mean(-1, keepdim=True).expand_as(e.affinity)
    direct, compatibility = e.direct.nan_to_num(0), e.compatibility.nan_to_num(0)
    assert torch.allclose(found["route_uniform"], written_out(even, compatibility, direct, mask, trace.config))
    mean_value = trace.factors(videos).attended.mean(1)  # π = 1/R
    q = op.projected_unit(queries, trace.projections["query"])
    assert torch.allclose(found["soft_uniform"], torch.cosine_similarity(q[:, None], mean_value[None], dim=-1))


@torch.no_grad()
def test_cross_video_shuffle_takes_the_affinity_of_another_video() -> None:
    queries, videos, trace = made_up()
    found, _ = parts_of(queries, videos, trace)
    e, other = trace.evidence(queries, videos), derangement(5, SEED)
    direct, compatibility = e.direct.nan_to_num(0), e.compatibility.nan_to_num(0)
    expected = written_out(e.affinity[:, other], compatibility, direct, videos.frame_mask, trace.config)
    assert torch.allclose(found["route_cross"], expected)
    q, attended = op.projected_unit(queries, trace.projections["query"]), trace.factors(videos).attended
    assert torch.allclose(found["soft_cross"], op.soft_score(q, e.activation[:, other], attended))


@torch.no_grad()
def test_shuffled_grounding_moves_compatibility_and_not_direct_evidence() -> None:
    queries, videos, trace = made_up()
    found, factors = parts_of(queries, videos, trace)
    e, mask = trace.evidence(queries, videos), videos.frame_mask
    place = frame_shuffle(mask, SEED)
    moved = torch.stack([b[:, order] for b, order in zip(e.compatibility.nan_to_num(0), place, strict=True)])
    expected = written_out(e.affinity, moved, e.direct.nan_to_num(0), mask, trace.config)
    assert torch.allclose(found["route_shuffled"], expected)
    assert torch.allclose(factors.shuffled_compatibility, moved)
    weights = (moved / trace.config.temperature).masked_fill(~mask[:, None], -torch.inf).softmax(-1)
    values = op.projected_unit(op.clean(videos.frames, mask), trace.projections["frame_value"])
    q = op.projected_unit(queries, trace.projections["query"])
    assert torch.allclose(found["soft_shuffled"], op.soft_score(q, e.activation, weights @ values))


@torch.no_grad()
def test_a_gate_scales_each_variant_by_the_certainty_of_its_own_activation() -> None:
    queries, videos, trace = made_up()
    gated = Trace(6, TraceConfig(gate=True)).double()
    gated.load_state_dict(trace.state_dict())
    found, _ = parts_of(queries, videos, gated)
    assert torch.allclose(ABLATIONS[0].evidence(found, 0.2), gated.evidence(queries, videos).score)  # type: ignore[arg-type]
    assert found["route_uniform"].abs().max() < 1e-9, "a uniform activation is no certainty at all"
    plain, _ = parts_of(queries, videos, trace)
    other = trace.evidence(queries, videos).activation[:, derangement(5, SEED)]
    assert torch.allclose(found["route_cross"], plain["route_cross"] * op.certainty(other))


@torch.no_grad()
def test_a_constant_affinity_leaves_no_query_in_the_support() -> None:
    queries, videos, trace = made_up()
    found, factors = parts_of(queries, videos, trace)
    e, gamma = trace.evidence(queries, videos), trace.config.routing_strength
    expected = (e.direct.nan_to_num(-9) + gamma * factors.open_support).amax(-1)
    assert torch.allclose(found["route_constant_uniform"], expected)
    assert torch.allclose(found["route_uniform"], expected + gamma * e.affinity.mean(-1))


def test_shuffles_are_permutations_fixed_by_the_seed() -> None:
    mask = torch.tensor([[True] * 6, [True, False, True, True, False, True], [True] + [False] * 5])
    place = frame_shuffle(mask, 1)
    assert (place.sort(1).values == torch.arange(6)).all()
    assert (place[~mask] == torch.arange(6).expand_as(place)[~mask]).all(), "padding stays where it is"
    assert (mask.gather(1, place) == mask).all(), "a valid frame takes the place of a valid frame"
    assert torch.equal(place, frame_shuffle(mask, 1))
    assert any(not torch.equal(place, frame_shuffle(mask, seed)) for seed in range(2, 6))
    for count in (2, 3, 50):
        assert (derangement(count, 3) != torch.arange(count)).all()
    with pytest.raises(ValueError, match="at least two"):
        derangement(1, 0)


def test_the_rows_are_those_of_the_paper() -> None:
    assert [variant.key for variant in ABLATIONS][:2] == ["trace", "base"]
    assert len(ABLATIONS) == 9
    assert len(CORRUPTIONS) == 3
    assert len({variant.key for variant in VARIANTS}) == len(VARIANTS) == 15
    parts = {name: torch.full((1, 1), value) for name, value in {"route": 2.0, "soft": 0.5}.items()}
    assert ABLATIONS[0].evidence(parts, 0.2).item() == pytest.approx(2.1)  # type: ignore[union-attr]
    assert ABLATIONS[1].evidence(parts, 0.2) is None
