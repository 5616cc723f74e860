"""Holmes gives the authors' numbers in both of its phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from prvr.backbones import CheckpointMismatch, build, from_official, load_official, to_official, total_loss
from prvr.backbones.holmes import Holmes
from prvr.trace import Trace
from prvr.training import PhaseEpoch, TraceModel, TraceStage

WARM, AFTER = 0, 20  # an epoch of each phase: the fixture's warm-up lasts 20
SHARED = {  # ours -> the fixture's
    "nce_clip": "nce_clip",
    "nce_frame": "nce_frame",
    "triplet_clip": "triplet_clip",
    "triplet_frame": "triplet_frame",
    "diversity": "query_diverse",
}
INTER = {"inter_frame": "edl_frame", "inter_clip": "edl_clip", "inter_both": "edl_comb"}


@pytest.fixture
def fixture(authors: Callable[[str], Any]) -> Any:
    return authors("holmes")


@pytest.fixture
def model(fixture: Any) -> Holmes:
    backbone = fixture.model()
    assert isinstance(backbone, Holmes)
    return backbone


def test_each_block_and_its_share_are_the_authors(model: Holmes, fixture: Any) -> None:
    case, videos = fixture.case, fixture.batch().videos
    one = int(case["one_index"])
    with torch.no_grad():
        clips, frames, mask = model.embed_videos(videos.frames, videos.frame_mask, videos.clips)
        by_clip, by_frame = model.clip_encoder.bank(clips), model.frame_encoder.bank(frames, mask)
        case.check("c.branches.one", by_clip[:, one, ::2].permute(1, 2, 0))
        case.check("f.branches.one", by_frame[:, one, ::8].permute(1, 2, 0))
        case.check("c.agg_logits", model.clip_encoder.aggregate.logits(by_clip).transpose(0, 1))


@pytest.mark.parametrize(("epoch", "phase"), [(WARM, "warm"), (AFTER, "post")])
def test_loss_terms_are_the_authors(epoch: int, phase: str, model: Holmes, fixture: Any) -> None:
    terms, case = fixture.terms(model, epoch), fixture.case
    for ours, theirs in SHARED.items():
        case.check(f"loss.{theirs}", terms[ours])
    for ours, theirs in INTER.items():
        case.check(f"{phase}.{theirs}", terms[ours])
    assert ("intra" in terms) == (phase == "post")
    if phase == "post":
        case.check("loss.edl_intra", terms["intra"])
    case.check(f"{phase}.total", total_loss(terms, model.loss_weights))


@pytest.mark.parametrize(("epoch", "phase"), [(WARM, "warm"), (AFTER, "post")])
def test_gradients_of_every_parameter_are_the_authors(epoch: int, phase: str, model: Holmes, fixture: Any) -> None:
    loss = total_loss(fixture.terms(model, epoch), model.loss_weights)
    fixture.check_gradients(model, loss, f"grad.{phase}.norm")


def test_six_steps_of_the_authors_optimiser_give_their_losses(model: Holmes, fixture: Any) -> None:
    fixture.case.check("train.losses", fixture.losses_of_steps(model, AFTER))


def test_weight_decay_falls_on_the_authors_parameters(model: Holmes, fixture: Any) -> None:
    assert fixture.decayed(model) == fixture.decay_flags


def test_the_dead_token_is_kept_and_never_moves(model: Holmes, fixture: Any) -> None:
    TraceModel(model, Trace(model.width), TraceStage()).enter(PhaseEpoch(AFTER, "backbone", -1))
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == ["weight_token"]
    before = model.weight_token.clone()
    fixture.losses_of_steps(model, AFTER)
    assert torch.equal(model.weight_token, before)


@pytest.mark.parametrize("epoch", [WARM, AFTER])
def test_padding_queries_change_no_loss(epoch: int, model: Holmes, fixture: Any) -> None:
    padded = fixture.terms(model, epoch, padding=5)
    for name, value in fixture.terms(model, epoch).items():
        assert torch.allclose(padded[name], value, atol=1e-5), name


@pytest.mark.parametrize("epoch", [WARM, AFTER])
def test_a_step_never_waits_for_a_value(epoch: int, model: Holmes, fixture: Any) -> None:
    fixture.check_no_waiting(model, epoch)


def test_tokens_depend_neither_on_padding_nor_on_the_batch(model: Holmes, fixture: Any) -> None:
    videos = fixture.short(model)
    assert torch.allclose(videos.frames, fixture.case["out.frame"][fixture.case["short.rows"]], atol=1e-4)
    assert torch.allclose(fixture.short(model, slice(1)).frames[0], videos.frames[0], atol=1e-5)
    assert torch.equal(fixture.short(model, noise=3.0).frames, videos.frames)
    assert not videos.frames[~videos.frame_mask].any()


@pytest.mark.parametrize(("visual", "query", "published"), [(1024, 1024, 30_791_200), (3072, 768, 32_273_440)])
def test_parameters_at_the_published_configuration(visual: int, query: int, published: int) -> None:
    model = build("holmes", visual_width=visual, query_width=query)
    assert sum(p.numel() for p in model.parameters()) == published


def test_a_captured_step_is_not_replayed_in_the_other_phase() -> None:
    config = build("holmes", visual_width=6, query_width=6, width=8, warmup_epochs=7, hard_negative_epoch=3).config
    assert len({config.regime_at(epoch) for epoch in range(10)}) == 3
    assert config.regime_at(6) != config.regime_at(7) == config.regime_at(9)


def test_official_keys_round_trip(model: Holmes, fixture: Any) -> None:
    written, weights = to_official(model), fixture.case.weights
    assert written.keys() == weights.keys()
    assert all(torch.equal(written[name], value) for name, value in weights.items())


def test_a_wrong_checkpoint_says_what_differs(model: Holmes, fixture: Any) -> None:
    fewer = dict(fixture.case.weights)
    del fewer["weight_token"]
    with pytest.raises(CheckpointMismatch, match=r"1 keys missing \(weight_token\)"):
        load_official(model, fewer)
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official("holmes", fewer, {k: v for k, v in fixture.case.config.items() if k != "hidden_size"})


@pytest.mark.parametrize("blocks", [1, 3])
def test_other_sizes_load_too(blocks: int) -> None:
    sizes = {"visual_width": 6, "query_width": 7, "width": 12, "heads": 2, "blocks": blocks}
    one, other = (build("holmes", frames=20, clips=8, words=5, **sizes) for _ in range(2))
    load_official(other, to_official(one))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
