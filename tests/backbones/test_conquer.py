"""CONQUER gives the authors' numbers for every pair, and re-ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import CheckpointMismatch, build, from_official, load_official, to_official, total_loss
from prvr.backbones.blocks.packed_words import unpack_words
from prvr.backbones.conquer import Conquer
from prvr.losses import info_nce, span_loss
from prvr.scoring import Gallery, NotSeparable
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch, VideoTokens


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("conquer")


@pytest.fixture
def model(case: Any) -> Conquer:
    backbone = from_official("conquer", case.weights, case.config)
    assert isinstance(backbone, Conquer)
    return backbone


@pytest.fixture
def encoded(model: Conquer, case: Any) -> tuple[Tensor, VideoTokens]:
    with torch.no_grad():
        queries = model.encode_queries(case["query_feat"], case["query_mask"])
        return queries, model.encode_videos(case["video_feat"], case["video_mask"], torch.zeros(3, 0, 28))


def small(**more: Any) -> Conquer:
    sizes: dict[str, Any] = {
        "visual_width": 20, "query_width": 24, "width": 32, "heads": 4, "inner_width": 40, "head_width": 8,
        "frames": 12, "dropout": 0.0,
    }  # fmt: skip
    model = build("conquer", **(sizes | more))
    assert isinstance(model, Conquer)
    return model


def small_batch(padding: int = 0) -> TrainBatch:
    g = torch.Generator().manual_seed(3)
    mask = torch.arange(9)[None] < torch.tensor([9, 4, 7, 1, 3])[:, None]
    words = torch.arange(6)[None] < torch.tensor([6, 3, 5, 2, 4, 1])[:, None]
    tokens = torch.randn(6, 6, 24, generator=g) * words[..., None]
    return TrainBatch(
        VideoBatch(torch.randn(5, 9, 20, generator=g) * mask[..., None], mask, torch.zeros(5, 4, 20)),
        QueryBatch(F.pad(tokens, (0, 0, 0, 0, 0, padding)), F.pad(words, (0, 0, 0, padding))),
        torch.cat([torch.tensor([0, 0, 1, 2, 3, 4]), torch.full((padding,), -1)]),
    )


def test_both_encoders_are_the_authors(model: Conquer, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    with torch.no_grad():
        case.check("query_proj", model.query_input.project(case["query_feat"]))
        case.check("query_emb", model.query_input(case["query_feat"]))
    words = unpack_words(encoded[0])
    case.check("query_states", words.states)
    assert torch.equal(words.mask, case["query_mask"] > 0)
    case.check("video_states", encoded[1].frames)


def test_every_step_of_a_pair_is_the_authors(model: Conquer, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    queries, videos = encoded
    pairs = (4, 3)
    with torch.no_grad():
        words = unpack_words(queries.repeat_interleave(3, 0)).states
        similarity = model.similarities(words, videos.frames.repeat(4, 1, 1))
        reading = model.read_all(queries, videos)
        states = model.video_head.states(reading)
    case.check("bidaf_similarity", similarity.unflatten(0, pairs))
    case.check("qal", reading.aware.unflatten(0, pairs))
    case.check("contextual_qal", reading.context.unflatten(0, pairs))
    case.check("vs_states", states.unflatten(0, pairs))


def test_scores_are_the_authors(model: Conquer, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    with torch.no_grad():
        scores = model.base_score(*encoded)
    case.check("scores", scores)
    case.check("scores_softmax", scores.softmax(1))


def test_moments_and_the_score_they_give_are_the_authors(
    model: Conquer, case: Any, encoded: tuple[Tensor, VideoTokens]
) -> None:
    disjoint = Conquer(replace(model.config, ranking="disjoint")).eval()
    load_official(disjoint, case.weights)
    with torch.no_grad():
        span = model.moment_logits(*encoded)
        case.check("disjoint_video_score", disjoint.base_score(*encoded))
    case.check("st_logits", span.start)
    case.check("ed_logits", span.end)


def test_losses_are_the_authors(model: Conquer, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    rows = case["loss_video_idx"]  # the positive first
    span = model.moment_logits(*encoded)
    video = model.config.weight_video * info_nce(model.base_score(*encoded).gather(1, rows), torch.zeros(4).long(), 1.0)
    starts, ends = (
        logits.gather(1, rows[..., None].expand(-1, -1, logits.shape[2])).flatten(1)
        for logits in (span.start, span.end)
    )
    moment = case.config["lw_st_ed"] * span_loss(starts, ends, case["st_ed_indices"])
    case.check("loss_video_weighted", video)
    case.check("loss_moment_weighted", moment)
    case.check("loss_total", video + moment)


def test_the_objective_is_that_loss_on_the_pairs_it_draws(model: Conquer, case: Any) -> None:
    rows, labels = case["loss_video_idx"], case["loss_video_idx"][:, 0]
    model.draw_candidates = lambda *_: rows  # type: ignore[method-assign]
    batch = TrainBatch(
        VideoBatch(case["video_feat"], case["video_mask"] > 0, torch.zeros(3, 0, 28)),
        QueryBatch(case["query_feat"], case["query_mask"] > 0),
        labels,
    )
    terms = model.objective(model.encode_batch(batch), epoch=0)
    case.check("loss_video_weighted", total_loss(terms, model.loss_weights))


def test_candidates_are_the_own_video_and_different_others() -> None:
    labels = torch.tensor([0, 3, 3, -1])
    rows = small().draw_candidates(labels, 6)
    assert rows.shape == (4, 4)
    assert rows[:3, 0].tolist() == [0, 3, 3]
    assert all(len(set(row)) == 4 for row in rows.tolist())
    assert small().draw_candidates(labels.clamp(max=1), 2).shape == (4, 2)


def test_scores_do_not_depend_on_padding_once_the_maximum_is_masked() -> None:
    model, batch = small().eval(), small_batch()
    videos, queries = batch.videos, batch.queries
    noise = 3 * torch.randn_like(videos.frames) * ~videos.frame_mask[..., None]
    longer = F.pad(videos.frames + noise, (0, 0, 0, 3), value=2.0), F.pad(videos.frame_mask, (0, 3)), videos.clips
    words = F.pad(queries.tokens, (0, 0, 0, 4), value=1.0), F.pad(queries.mask, (0, 4))
    with torch.no_grad():
        plain = model.base_score(model.encode_queries(queries.tokens, queries.mask), model.encode_video_batch(videos))
        padded = model.base_score(model.encode_queries(*words), model.encode_videos(*longer).padded(14))
    torch.testing.assert_close(plain, padded, atol=1e-5, rtol=1e-4)


def test_padding_queries_leave_loss_and_gradients_alone() -> None:
    def gradients(padding: int) -> dict[str, Tensor]:
        torch.manual_seed(1)
        model = small(negatives=4)  # all other videos: nothing is left to chance
        batch = small_batch(padding)
        total_loss(model.objective(model.encode_batch(batch), epoch=0), model.loss_weights).backward()
        return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    plain, padded = gradients(0), gradients(3)
    assert plain.keys() == dict(small().named_parameters()).keys()
    for name, gradient in plain.items():
        assert gradient.isfinite().all(), name
        torch.testing.assert_close(gradient, padded[name], atol=1e-6, rtol=1e-4)


def test_official_keys_round_trip(model: Conquer, case: Any) -> None:
    written = to_official(model)
    assert written.keys() == case.weights.keys()
    assert all(torch.equal(written[name], value) for name, value in case.weights.items())


def test_a_wrong_checkpoint_says_which_keys_or_shapes_differ(model: Conquer, case: Any) -> None:
    name = "query_aware_feature_learning_layer.similarity_weight.weight"
    fewer = dict(case.weights)
    fewer["extra.weight"] = fewer.pop(name)
    with pytest.raises(CheckpointMismatch, match=rf"missing \({name}\).*known \(extra.weight\)"):
        load_official(model, fewer)
    with pytest.raises(CheckpointMismatch, match=r"has shape \(1, 95\), expected \(1, 96\)"):
        load_official(model, case.weights | {name: torch.zeros(1, 95)})
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_dim'"):
        from_official("conquer", case.weights, {k: v for k, v in case.config.items() if k != "hidden_dim"})


def test_it_names_its_first_stage_or_says_that_it_has_none() -> None:
    assert small().first_stage is None
    assert "without a first stage" in small().notice
    model = small(first_stage="runs/charades-xml-seed0", candidates=7)
    assert (model.first_stage, model.notice) == (("runs/charades-xml-seed0", 7, 3, 0.057), "")
    with pytest.raises(NotSeparable, match="conquer scores each query–video pair by itself"):
        Gallery.build(model, None, [small_batch().videos])


def test_what_needs_a_moment_head_says_so() -> None:
    with pytest.raises(ValueError, match=r"disjoint\) only with a moment head"):
        small(ranking="disjoint")
    model, batch = small(), small_batch()
    with pytest.raises(ValueError, match="no moment head"):
        model.moment_logits(
            model.encode_queries(batch.queries.tokens, batch.queries.mask), model.encode_video_batch(batch.videos)
        )


def test_the_affordable_size_has_nine_to_ten_million_parameters_for_ranking() -> None:
    assert 9e6 < sum(p.numel() for p in build("conquer").parameters()) < 10e6  # spec 3.3
