"""XML gives the authors' numbers: ranking, losses and the moment head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import CheckpointMismatch, build, from_official, load_official, to_official, total_loss
from prvr.backbones.xml import XML
from prvr.losses import Negatives, pick_negatives, span_loss, triplet
from prvr.scoring import Gallery, score
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch, VideoTokens


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("xml")


@pytest.fixture
def model(case: Any) -> XML:
    backbone = from_official("xml", case.weights, case.config)
    assert isinstance(backbone, XML)
    return backbone


@pytest.fixture
def encoded(model: XML, case: Any) -> tuple[Tensor, VideoTokens]:
    with torch.no_grad():
        queries = model.encode_queries(case["query_feat"], case["query_mask"])
        return queries, model.encode_videos(case["video_feat"], case["video_mask"], torch.zeros(4, 0, 40))


def batch_of(case: Any, padding: int = 0) -> TrainBatch:
    """The pairs the fixture's losses are of, and some queries that are only padding."""
    b = case.config["loss_batch"]
    queries, words = case["query_feat"][:b], case["query_mask"][:b] > 0
    return TrainBatch(
        VideoBatch(case["video_feat"][:b], case["video_mask"][:b] > 0, torch.zeros(b, 0, 40)),
        QueryBatch(F.pad(queries, (0, 0, 0, 0, 0, padding)), F.pad(words, (0, 0, 0, padding))),
        torch.cat([torch.arange(b), torch.full((padding,), -1)]),
    )


def test_every_step_of_the_query_is_the_authors(model: XML, case: Any) -> None:
    mask = case["query_mask"] > 0
    tower = model.text_tower
    with torch.no_grad():
        case.check("query_proj", tower.input.project(case["query_feat"]))
        case.check("query_pos", tower.input(case["query_feat"]))
        text = tower(case["query_feat"], mask)
        energy = tower.pool.score(text.words).squeeze(-1).masked_fill(~mask, -1e10)
    case.check("query_encoded", text.words)
    case.check("modular_att", energy.softmax(-1))
    case.check("modular_query", text.vector)


def test_every_step_of_the_video_is_the_authors(model: XML, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    with torch.no_grad():
        case.check("video_proj", model.frame_input.project(case["video_feat"]))
        case.check("video_pos", model.frame_input(case["video_feat"]))
        case.check("video_feat1", model.frame_states(case["video_feat"], case["video_mask"] > 0))
        case.check("video_feat2", model.moment_states(case["video_feat"], case["video_mask"]))
    frames = encoded[1].frames
    assert float((frames - case["video_feat1"] * case["video_mask"][..., None]).abs().max()) < 1e-5


def test_scores_are_the_authors_and_so_are_a_gallerys(
    model: XML, case: Any, encoded: tuple[Tensor, VideoTokens]
) -> None:
    queries, videos = encoded
    case.check("scores", model.base_score(queries, videos))
    case.check("scores", score(queries, Gallery.of_tokens(model, None, videos)))
    cosine = torch.einsum("qd,vmd->qvm", F.normalize(queries, dim=-1), F.normalize(videos.frames, dim=-1))
    real = case["video_mask"]
    assert float((cosine - case["frame_cosine"] * real).abs().max()) < 1e-5


def test_batches_of_other_lengths_share_a_gallery(model: XML, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    frames, mask = case["video_feat"], case["video_mask"] > 0
    clips = torch.zeros(2, 0, 40)
    batches = [VideoBatch(frames[:2], mask[:2], clips), VideoBatch(frames[2:, :10], mask[2:, :10], clips)]
    case.check("scores", score(encoded[0], Gallery.build(model, None, batches)))


def test_moments_are_the_authors(model: XML, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    with torch.no_grad():
        states = model.moment_states(case["video_feat"], case["video_mask"])
        span = model.moment_logits(encoded[0], states, case["video_mask"])
    case.check("st_logits", span.start)
    case.check("ed_logits", span.end)
    factor = model.moment_factor(model.base_score(*encoded))
    torch.testing.assert_close(factor, case["scores_exp"], rtol=1e-4, atol=0)


@pytest.mark.parametrize(("kind", "soft"), [("hinge", False), ("lse", True)])
def test_both_directions_of_both_ranking_losses_are_the_authors(kind: str, soft: bool, case: Any) -> None:
    scores, labels = case["scores"][:4, :4], torch.arange(4)
    hardest = pick_negatives(scores, labels, hard_pool=1)
    queries_only = Negatives(labels, hardest.video_of_query)  # an anchor that meets itself adds nothing
    videos_only = Negatives(hardest.query_of_video, labels)
    margin = case.config["margin"]
    case.check(f"loss_neg_ctx_{kind}", triplet(scores, labels, margin, queries_only, soft=soft))
    case.check(f"loss_neg_q_{kind}", triplet(scores, labels, margin, videos_only, soft=soft))


def test_the_total_loss_is_the_authors(model: XML, case: Any) -> None:
    batch, spans = batch_of(case), case["st_ed_indices"]
    encoded = model.encode_batch(batch)
    ranking = total_loss(model.objective(encoded, epoch=0), model.loss_weights)
    states = model.moment_states(batch.videos.frames, batch.videos.frame_mask)
    span = model.moment_logits(encoded.queries, states, batch.videos.frame_mask)
    own = torch.arange(len(spans))
    moments = case.config["lw_st_ed"] * span_loss(span.start[own, own], span.end[own, own], spans)
    case.check("loss_st_ed_weighted", moments)
    case.check("loss_total", ranking + moments)


def test_padding_queries_leave_loss_and_gradients_alone(model: XML, case: Any) -> None:
    def gradients(padding: int) -> dict[str, Tensor]:
        model.zero_grad()
        total_loss(model.objective(model.encode_batch(batch_of(case, padding)), epoch=0), model.loss_weights).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    plain, padded = gradients(0), gradients(3)
    assert {name for name, _ in model.named_parameters() if not name.startswith(model.untrained)} == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(gradient, padded[name], atol=1e-6, rtol=1e-4)


def test_negatives_come_from_a_pool_on_both_sides_once_they_are_hard() -> None:
    scores, labels = torch.randn(30, 10), torch.arange(30) % 10
    negative = labels[:, None] != torch.arange(10)
    hardest = scores.masked_fill(~negative, -torch.inf).topk(3, dim=0).indices
    drawn = torch.stack([pick_negatives(scores, labels, hard_pool=3, query_pool=3).query_of_video for _ in range(60)])
    assert (drawn[:, None] == hardest[None]).any(1).all()
    assert all(len(set(column.tolist())) == 3 for column in drawn.T)


def test_scores_do_not_depend_on_padding_or_batch(model: XML, case: Any, encoded: tuple[Tensor, VideoTokens]) -> None:
    frames, mask = case["video_feat"], case["video_mask"] > 0
    dirty = F.pad(frames + 3 * torch.randn_like(frames) * ~mask[..., None], (0, 0, 0, 4), value=1.0)
    with torch.no_grad():
        videos = model.encode_videos(dirty, F.pad(mask, (0, 4)), torch.zeros(4, 0, 40))
        tokens = F.pad(case["query_feat"], (0, 0, 0, 3), value=1.0)
        queries = model.encode_queries(tokens, F.pad(case["query_mask"], (0, 3)))
        alone = model.encode_videos(frames[2:3, :3], mask[2:3, :3], torch.zeros(1, 0, 40))
    case.check("scores", model.base_score(queries, videos))
    assert float((model.base_score(encoded[0], alone)[:, 0] - case["scores"][:, 2]).abs().max()) < 1e-5
    assert not videos.frames[~videos.frame_mask].any()


def test_official_keys_round_trip(model: XML, case: Any) -> None:
    written = to_official(model)
    assert written.keys() == case.weights.keys()
    assert all(torch.equal(written[name], value) for name, value in case.weights.items())


def test_a_wrong_checkpoint_says_which_keys_or_shapes_differ(model: XML, case: Any) -> None:
    fewer = dict(case.weights)
    fewer["extra.weight"] = fewer.pop("modular_vector_mapping.weight")
    with pytest.raises(CheckpointMismatch, match=r"missing \(modular_vector_mapping.weight\).*known \(extra.weight\)"):
        load_official(model, fewer)
    two_streams = case.weights | {"modular_vector_mapping.weight": torch.zeros(2, 32)}
    with pytest.raises(CheckpointMismatch, match=r"has shape \(2, 32\), expected \(1, 32\)"):
        load_official(model, two_streams)
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official("xml", case.weights, {k: v for k, v in case.config.items() if k != "hidden_size"})


def test_ranking_alone_takes_the_published_number_of_parameters() -> None:
    def count(**settings: Any) -> float:
        return sum(p.numel() for p in build("xml", **settings).parameters()) / 1e6

    # spec 2.3: 1.10 M and 1.56 M for ranking, 1.69 M with the moment head
    assert round(count(), 2) == 1.10
    assert round(count(visual_width=3072, query_width=768), 2) == 1.56
    assert round(count(moment_head=True), 2) == 1.69


def test_a_model_without_a_moment_head_says_so() -> None:
    with pytest.raises(ValueError, match="no moment head: build it with moment_head=True"):
        build("xml", width=32).moment_states(torch.zeros(1, 3, 1024), torch.ones(1, 3))  # type: ignore[operator]
