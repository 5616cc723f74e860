"""UEM gives the authors' numbers: where a video is cut, which event is read, losses, gradients and steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from prvr.backbones import build, from_official, total_loss
from prvr.backbones.blocks.events import EventTokens, event_numbers, event_scores
from prvr.backbones.uem import UEM
from prvr.losses import first_video_nce, two_way_nce
from prvr.tokens import TrainBatch
from prvr.training import load_preset


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("uem")


@pytest.fixture
def model(case: Any) -> UEM:
    backbone = from_official("uem", case.weights, case.config)
    assert isinstance(backbone, UEM)
    return backbone


def test_videos_are_cut_as_by_the_authors(case: Any) -> None:
    names = [key.split(".")[1] for key in case.tensors if key.startswith("seg_case.") and key.endswith(".x")]
    assert len(names) == 7
    for name in names:
        x, expected = case[f"seg_case.{name}.x"], case[f"seg_case.{name}.events"]
        found = event_numbers(
            x[None], torch.ones(1, len(x), dtype=torch.bool), float(case[f"seg_case.{name}.threshold"])
        )
        # Where the first frame is zero, the authors' numbers begin at 1 and can overrun their table; ours do not.
        assert torch.equal(found[0], expected - expected[0]), name


def test_tokens_events_and_scores_are_the_authors(model: UEM, case: Any, batch: TrainBatch) -> None:
    with torch.no_grad():
        queries = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        videos = model.encode_video_batch(batch.videos)
        cosines, dots = model.scores(queries, videos)
    assert isinstance(videos, EventTokens)
    assert torch.equal(videos.events, case["in.event_index"])
    assert bool((case["event.choice"] == -1).any())  # the whole video wins somewhere
    for value, name in (
        (queries, "out.query"),
        (videos.frames, "out.frame"),
        (cosines, "out.fused"),
        (dots, "out.scores_raw"),
    ):
        torch.testing.assert_close(value, case[name], atol=2e-5, rtol=0)


def test_videos_that_fill_every_slot_are_scored_too(model: UEM, case: Any) -> None:
    """The released code stops at them."""
    with torch.no_grad():
        queries = model.encode_queries(case["full.in.text_feat"], case["full.in.text_mask"])
        videos = model.encode_videos(
            case["full.in.frame_video_features"], case["full.in.videos_mask"], case["full.in.clip_video_features"]
        )
        cosines, dots = model.scores(queries, videos)
    torch.testing.assert_close(videos.frames, case["full.out.frame"], atol=2e-5, rtol=0)
    torch.testing.assert_close(cosines, case["full.out.fused"], atol=1e-5, rtol=0)
    torch.testing.assert_close(dots, case["full.out.scores_raw"], atol=5e-5, rtol=0)


def test_scoring_alone_is_the_authors(case: Any) -> None:
    frames, events = case["score_case.frame"], case["score_case.event_index"]
    videos = EventTokens(frames, events >= 0, frames.new_zeros(3, 0, 6), events=events)
    cosines, dots = event_scores(case["score_case.query"], videos, whole_video=True)
    torch.testing.assert_close(cosines, case["score_case.fused"], atol=1e-5, rtol=0)
    torch.testing.assert_close(dots, case["score_case.scores_raw"], atol=1e-5, rtol=0)


def test_a_video_with_one_event_is_read_as_an_event_and_the_whole_can_be_left_out() -> None:
    """Event and whole video point the same way: the authors' choice is a matter of rounding."""
    frames = F.pad(torch.rand(3, 4, 6) + 0.2, (0, 0, 0, 4))
    mask = torch.arange(8) < torch.tensor([[4], [4], [4]])
    events = torch.zeros(3, 8, dtype=torch.long).masked_fill(~mask, -1)
    videos, queries = EventTokens(frames, mask, frames.new_zeros(3, 0, 6), events=events), torch.rand(5, 6)
    cosines, _ = event_scores(queries, videos, whole_video=True)
    each = torch.einsum("qd,vmd->qvm", F.normalize(queries, dim=-1), F.normalize(frames[:, :4], dim=-1))
    torch.testing.assert_close(cosines, (each.softmax(-1) * each).sum(-1))
    two = replace(videos, events=torch.where(mask, torch.arange(8) // 2, -1))
    plain, _ = event_scores(queries, two, whole_video=False)
    pairs = each.unflatten(2, (2, 2))
    by_event = (pairs.softmax(-1) * pairs).sum(-1)  # (Q, V, 2)
    assert bool(torch.isclose(plain[..., None], by_event, atol=1e-6).any(-1).all())


def test_loss_terms_gradients_and_steps_are_the_authors(model: UEM, batch: TrainBatch, case: Any, authors: Any) -> None:
    encoded, helper = model.encode_batch(batch), authors("uem")
    terms = model.objective(encoded, epoch=0)
    for name, value in terms.items():
        torch.testing.assert_close(value, case[f"loss.{name}"], atol=1e-5, rtol=0)
    total = total_loss(terms, model.loss_weights)
    torch.testing.assert_close(total, case["loss.total"], atol=1e-5, rtol=0)
    _, dots = model.scores(encoded.queries, encoded.videos)
    torch.testing.assert_close(first_video_nce(dots, batch.labels), case["loss.nce"], atol=1e-5, rtol=0)
    torch.testing.assert_close(two_way_nce(dots, batch.labels), case["loss.nce_repaired"], atol=1e-5, rtol=0)
    helper.check_gradients(model, total, "grad.norm")  # −1 for the layers that the authors never call
    losses = helper.losses_of_steps(model)
    torch.testing.assert_close(losses.double(), case["train.losses"][: len(losses)].double(), atol=1e-4, rtol=0)


def test_padding_changes_nothing_and_no_step_waits(model: UEM, authors: Any) -> None:
    helper = authors("uem")
    clean, dirty = helper.terms(model), helper.terms(model, padding=3)
    for name, value in clean.items():
        torch.testing.assert_close(dirty[name], value, atol=1e-6, rtol=1e-6)
    helper.check_no_waiting(model, epoch=0)
    model.eval()
    batch = helper.batch()
    videos = batch.videos
    dirty_frames = videos.frames + 3 * torch.randn_like(videos.frames) * ~videos.frame_mask[..., None]
    with torch.no_grad():
        one, other = (model.encode_videos(f, videos.frame_mask, videos.clips) for f in (videos.frames, dirty_frames))
    torch.testing.assert_close(other.frames, one.frames)
    assert torch.equal(other.events, one.events)  # type: ignore[arg-type]


def test_one_query_one_video_one_frame_and_too_many_frames(model: UEM, case: Any) -> None:
    query = model.encode_queries(case["in.text_feat"][:1, :1], case["in.text_mask"][:1, :1])
    videos = model.encode_videos(case["in.frame_video_features"][:1, :1], torch.ones(1, 1), torch.zeros(1, 0, 20))
    assert model.base_score(query, videos).isfinite().all()
    with pytest.raises(ValueError, match="129 frames per video, but this model has 128 slots"):
        model.encode_videos(torch.zeros(1, 129, 20), torch.ones(1, 129), torch.zeros(1, 0, 20))


def test_presets_hold_the_released_settings() -> None:
    # spec: UEM's released hyper-parameters; parameters less the 740,736 that nothing reads
    for dataset, numbers in {"activitynet": (0.31, 0.2, 0.9, 2e-4), "tvr": (0.2, 0.1, 0.92, 3e-4)}.items():
        config = load_preset(dataset, "uem")
        model: Any = config.model
        found = (model.dropout, model.margin, model.event_threshold, config.backbone_stage.learning_rate)
        assert found == numbers
        assert (config.batch_size, model.weight_triplet, model.nce) == (64, 0.02, "two-way")
        assert sum(p.numel() for p in build("uem", model).parameters()) == 3_711_872
    assert load_preset("activitynet", "uem").model == UEM.config_type()
