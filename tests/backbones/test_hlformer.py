"""HLFormer gives the authors' numbers, and none of its curved functions gives a NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from prvr.backbones import CheckpointMismatch, build, from_official, load_official, to_official, total_loss
from prvr.backbones.blocks.lorentz import clamped_parameter, exponential_map, logarithmic_map
from prvr.backbones.hlformer import HLFormer, HybridBank
from prvr.losses import exterior_angle, half_aperture, onto_hyperboloid, partial_order

TERMS = {  # ours -> the fixture's
    "nce_clip": "nce_clip",
    "nce_frame": "nce_frame",
    "triplet_clip": "triplet_clip",
    "triplet_frame": "triplet_frame",
    "diversity": "query_diverse",
    "order": "pop",
}


@pytest.fixture
def fixture(authors: Callable[[str], Any]) -> Any:
    return authors("hlformer")


@pytest.fixture
def model(fixture: Any) -> HLFormer:
    backbone = fixture.model()
    assert isinstance(backbone, HLFormer)
    return backbone


@pytest.mark.parametrize(("which", "block", "name", "step"), [("clip", 0, "c.h0", 2), ("frame", 1, "f.h1", 8)])
def test_the_inside_of_a_lorentz_block_is_the_authors(
    which: str, block: int, name: str, step: int, model: HLFormer, fixture: Any
) -> None:
    case, batch = fixture.case, fixture.batch()
    one = int(case["one_index"])
    with torch.no_grad():
        embedded = dict(
            zip(
                ("clip", "frame", "mask"),
                model.embed_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips),
                strict=True,
            )
        )
        encoder = model.get_submodule(f"{which}_encoder")
        assert isinstance(encoder, HybridBank)
        x, mask = embedded[which][one : one + 1], embedded["mask"][one : one + 1] if which == "frame" else None
        outputs = encoder.outputs(x, mask)
        case.check(f"{name[0]}.branches.one", outputs[:, 0, ::step].permute(1, 2, 0))
        bank = encoder.hyperbolic
        points = exponential_map(case[f"{name}.in.one"] * clamped_parameter(bank.log_scale, high=0.0)[block].exp())
        case.check(f"{name}.hyp.one", points)
        stacked = points.expand(bank.blocks, 1, *points.shape)
        for i, part in enumerate("qkv"):
            case.check(f"{name}.{part}.one", bank.to_heads(stacked, i)[block, 0].transpose(0, 1))
        back = logarithmic_map(case[f"{name}.mid.one"]) / bank.log_scale[block].exp()
        case.check(f"{name}.log.one", back)
        case.check(f"{name}.out.one", bank.attend(x, mask)[block, 0, ::step])


def test_points_of_the_partial_order_are_the_authors(model: HLFormer, fixture: Any) -> None:
    case = fixture.case
    queries, videos = fixture.encode(model)
    with torch.no_grad():
        case.check("hyp.frame_pooled", model.frame_pool(videos.frames))
        case.check("hyp.clip_pooled", model.clip_pool(videos.clips))
        apexes, points, curvature = model.hyperbolic_points(videos, queries)
    case.check("hyp.curv", curvature)
    case.check("hyp.video", apexes)
    case.check("hyp.query", points)
    own = apexes[case["in.text_labels"]]
    case.check("hyp.angle", exterior_angle(own, points, curvature))
    case.check("hyp.aperture", half_aperture(own, curvature))


def test_a_cone_is_the_authors_where_it_saturates_and_where_the_point_lies_inside(fixture: Any) -> None:
    case = fixture.case
    curvature = case["pop_case.curv"]
    x, y = (onto_hyperboloid(case[f"pop_case.{n}_tangent"], curvature) for n in "xy")
    case.check("pop_case.x_space", x)
    case.check("pop_case.y_space", y)
    case.check("pop_case.angle", exterior_angle(x, y, curvature))
    case.check("pop_case.aperture", half_aperture(x, curvature))
    case.check("pop_case.loss", partial_order(x, y, torch.arange(len(x)), curvature))


def test_loss_terms_are_the_authors(model: HLFormer, fixture: Any) -> None:
    terms = fixture.terms(model)
    for ours, theirs in TERMS.items():
        fixture.case.check(f"loss.{theirs}", terms[ours])
    fixture.case.check("loss.total", total_loss(terms, model.loss_weights))


def test_gradients_of_every_parameter_are_the_authors(model: HLFormer, fixture: Any) -> None:
    fixture.check_gradients(model, total_loss(fixture.terms(model), model.loss_weights), "grad.norm")
    fixture.check_gradients(model, fixture.terms(model)["order"], "grad.pop_norm")


def test_six_steps_of_the_authors_optimiser_give_their_losses(model: HLFormer, fixture: Any) -> None:
    fixture.case.check("train.losses", fixture.losses_of_steps(model))


def test_weight_decay_falls_on_the_authors_parameters(model: HLFormer, fixture: Any) -> None:
    constant = {name for name in fixture.decay_flags if name.endswith("manifold.k")}
    assert fixture.decayed(model) == {k: v for k, v in fixture.decay_flags.items() if k not in constant}


def test_padding_queries_change_no_loss(model: HLFormer, fixture: Any) -> None:
    padded = fixture.terms(model, padding=3)
    for name, value in fixture.terms(model).items():
        assert torch.allclose(padded[name], value, atol=1e-5), name


def test_a_step_never_waits_for_a_value(model: HLFormer, fixture: Any) -> None:
    fixture.check_no_waiting(model, epoch=0)


def test_tokens_depend_neither_on_padding_nor_on_the_batch(model: HLFormer, fixture: Any) -> None:
    videos = fixture.short(model)
    assert torch.allclose(videos.frames, fixture.case["out.frame"][fixture.case["short.rows"]], atol=1e-4)
    assert torch.allclose(fixture.short(model, slice(1)).frames[0], videos.frames[0], atol=1e-5)
    assert torch.equal(fixture.short(model, noise=3.0).frames, videos.frames)
    assert not videos.frames[~videos.frame_mask].any()


@pytest.mark.parametrize(("visual", "query", "published"), [(1024, 1024, 28_429_244), (3072, 768, 29_911_484)])
def test_parameters_at_the_published_configuration(visual: int, query: int, published: int) -> None:
    model = build("hlformer", visual_width=visual, query_width=query)
    assert sum(p.numel() for p in model.parameters()) + 1 == published  # the authors also count the constant 1


def test_starting_values_are_the_authors() -> None:
    model = build("hlformer", visual_width=20, query_width=24)
    assert isinstance(model, HLFormer)
    bank = model.frame_encoder.hyperbolic
    assert model.log_query_scale.item() == model.log_video_scale.item() == pytest.approx(-2.975, abs=1e-3)
    assert bank.log_scale.tolist() == pytest.approx([-2.422] * 4, abs=1e-3)
    assert (model.log_curvature.item(), bank.head_scale.unique().item()) == (0.0, pytest.approx(2.3))
    assert bank.head_weight.std().item() == pytest.approx(0.02, rel=0.05)


# -- the authors' checkpoints ------------------------------------------------------------------------------------------


def test_official_keys_round_trip_less_the_constant(model: HLFormer, fixture: Any) -> None:
    weights = {k: v for k, v in fixture.case.weights.items() if not k.endswith("manifold.k")}
    written = to_official(model)
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], value) for name, value in weights.items())


def test_another_curvature_of_the_blocks_or_another_model_is_refused(model: HLFormer, fixture: Any) -> None:
    weights = dict(fixture.case.weights)
    with pytest.raises(CheckpointMismatch, match=r"self.manifold.k is 2.0, but must be 1"):
        load_official(model, weights | {"clip_encoder.h_attns.0.self.manifold.k": torch.tensor(2.0)})
    with pytest.raises(CheckpointMismatch, match=r"h_attns.0.self.scale_alpha has|do not stack"):
        load_official(model, weights | {"clip_encoder.h_attns.0.self.scale_alpha": torch.zeros(2)})
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official("hlformer", weights, {k: v for k, v in fixture.case.config.items() if k != "hidden_size"})


@pytest.mark.parametrize("blocks", [2, 4])
def test_other_sizes_load_too(blocks: int) -> None:
    sizes = {"visual_width": 6, "query_width": 7, "width": 12, "heads": 2, "hyperbolic_width": 9, "blocks": blocks}
    one, other = (build("hlformer", frames=20, clips=8, words=5, **sizes) for _ in range(2))
    load_official(other, to_official(one))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_blocks_that_do_not_halve_are_refused() -> None:
    with pytest.raises(ValueError, match="5 blocks cannot be half Euclidean and half hyperbolic"):
        build("hlformer", blocks=5)
    with pytest.raises(ValueError, match=r"hyperbolic width 128 \+ 1 is not divisible by 4 heads"):
        build("hlformer", hyperbolic_width=128)


# -- bounds and numerical hazards --------------------------------------------------------------------------------------


def test_a_parameter_beyond_its_bound_is_brought_back_and_still_learns(model: HLFormer, fixture: Any) -> None:
    """The fixture holds a scale_alpha of +0.3: the authors' forward pass, evaluation too, leaves 0 there."""
    stored = model.frame_encoder.hyperbolic.log_scale.detach()
    assert float(stored.max()) == pytest.approx(0.3)
    fixture.encode(model)
    assert float(stored.max()) == 0.0
    with torch.no_grad():
        model.log_curvature.fill_(9.0)
    for _ in range(2):  # twice before a backward pass, as a captured step and a validation may
        terms = fixture.terms(model)
    terms["order"].backward()
    assert model.log_curvature.item() == pytest.approx(math.log(10))
    assert float(model.log_curvature.grad) != 0


def test_half_precision_around_the_hyperboloid_stays_near_and_finite(model: HLFormer, fixture: Any) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        queries, videos = fixture.encode(model)
        terms = fixture.terms(model)
    assert (model.base_score(queries.float(), videos.to(torch.float32)) - fixture.case["out.fused"]).abs().max() < 0.02
    total_loss(terms, model.loss_weights).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_origin_maps_there_and_back_with_finite_gradients() -> None:
    tangent = torch.zeros(2, 3, requires_grad=True)
    logarithmic_map(exponential_map(tangent)).sum().backward()
    assert torch.isfinite(tangent.grad).all()
    point = torch.tensor([[1.0, 0.0, 0.0]], requires_grad=True)  # time rounds to 1: 0/0 in the authors' form
    back = logarithmic_map(point)
    back.sum().backward()
    assert not back.any()
    assert torch.isfinite(point.grad).all()


def test_a_head_without_direction_has_finite_gradients() -> None:
    model = build("hlformer", visual_width=6, query_width=6, width=8, heads=2, hyperbolic_width=7, frames=8, clips=4)
    assert isinstance(model, HLFormer)
    bank = model.clip_encoder.hyperbolic
    with torch.no_grad():
        bank.head_weight.zero_()  # every head's space part is exactly zero
    bank(torch.randn(2, 4, 8)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in bank.parameters() if p.grad is not None)


@pytest.mark.parametrize("size", [0.0, 1e-6, 0.05, 1.0, 30.0])
@pytest.mark.parametrize("turn", [1.0, -1.0, 0.0])
def test_cones_have_finite_gradients_everywhere(size: float, turn: float) -> None:
    """Points at the origin, far out, on the axis on both sides, and equal to the apex: acos and asin at ±1."""
    x = (size * torch.tensor([[1.0, 0.0]])).requires_grad_()
    y = (size * turn * torch.tensor([[1.0, 0.0]])).requires_grad_()
    log_curvature = torch.zeros((), requires_grad=True)
    curvature = log_curvature.exp()
    points = onto_hyperboloid(x, curvature), onto_hyperboloid(y, curvature)
    loss = partial_order(*points, torch.tensor([0]), curvature)
    loss.backward()
    assert all(torch.isfinite(t.grad).all() for t in (x, y, log_curvature))
    assert torch.isfinite(loss)
