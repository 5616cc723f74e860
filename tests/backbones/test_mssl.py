"""MS-SL gives the authors' numbers, and scores pairs for a fraction of their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from prvr.backbones import from_official
from prvr.backbones.mssl import MSSL, window_averages
from prvr.losses import square_nce, square_triplet
from prvr.scoring import Gallery, NotSeparable, pairwise_scores
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch, VideoTokens
from prvr.training import config_to_dict, load_preset


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("mssl")


@pytest.fixture
def model(case: Any) -> MSSL:
    backbone = from_official("mssl", case.weights, case.config)
    assert isinstance(backbone, MSSL)
    return backbone


@pytest.fixture
def videos(model: MSSL, case: Any) -> VideoTokens:
    with torch.no_grad():
        return model.encode_videos(
            case["in.frame_video_features"], case["in.videos_mask"], case["in.clip_video_features"]
        )


@torch.no_grad()
def test_tokens_and_scores_are_the_authors(model: MSSL, videos: VideoTokens, case: Any) -> None:
    queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
    real = case["in.videos_mask"] > 0
    torch.testing.assert_close(queries, case["query.vector"], atol=1e-5, rtol=0)
    torch.testing.assert_close(videos.clips, case["clip.encoded"], atol=1e-5, rtol=0)
    torch.testing.assert_close(videos.frames[real], case["frame.encoded"][real], atol=1e-5, rtol=0)
    torch.testing.assert_close(model.base_score(queries, videos), case["score.fused"], atol=1e-5, rtol=0)
    for weights, name in (((1.0, 0.0), "clip_cos"), ((0.0, 1.0), "frame_cos")):
        model.config = replace(model.config, clip_weight=weights[0], frame_weight=weights[1])
        torch.testing.assert_close(model.base_score(queries, videos), case[f"score.{name}"], atol=1e-5, rtol=0)


@torch.no_grad()
def test_key_clips_and_guided_vectors_are_the_authors(model: MSSL, videos: VideoTokens, case: Any) -> None:
    queries, labels = case["query.vector"], case["in.text_labels"]
    proposals = model.proposals(videos.clips)
    assert proposals.shape == (5, 528, 32)
    cosine = torch.einsum("qd,vpd->qvp", F.normalize(queries, dim=-1), F.normalize(proposals, dim=-1))
    key = cosine.argmax(-1)
    assert torch.equal(key, case["score.clip_argmax"])
    guided = model.guided(proposals, videos.frames, videos.frame_mask)[torch.arange(5), key].transpose(0, 1)
    torch.testing.assert_close(guided, case["score.infer.frame_feat"], atol=5e-5, rtol=0)
    own = model.own_guided(queries, labels, videos)
    torch.testing.assert_close(own, case["score.train.frame_feat"], atol=5e-5, rtol=0)
    torch.testing.assert_close(queries @ own.T, case["score.train.frame_dot"], atol=2e-4, rtol=0)  # up to 30 long
    dots = model.proposal_dots(torch.einsum("qd,vcd->qvc", queries, videos.clips)).amax(-1)
    torch.testing.assert_close(dots, case["score.clip_dot"], atol=5e-5, rtol=0)


def test_square_losses_are_the_authors(case: Any) -> None:
    labels = case["in.text_labels"]
    nce = square_nce(case["score.train.frame_dot"], labels)
    torch.testing.assert_close(nce, case["loss.frame_nce"], atol=1e-5, rtol=0)
    hinges = square_triplet(case["score.train.frame_cos"], labels, 0.2, hard_pool=1)
    torch.testing.assert_close(hinges, case["loss.frame_triplet"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("hard_pool", [None, 1, 20])
def test_square_losses_leave_padding_out(hard_pool: int | None) -> None:
    scores, labels = torch.randn(4, 4), torch.tensor([0, 0, 1, 2])
    more = torch.full((7, 7), 50.0)  # padding that would win every comparison
    more[:4, :4] = scores
    padded = F.pad(labels, (0, 3), value=-1)
    assert torch.allclose(square_nce(more, padded), square_nce(scores, labels))
    top = square_triplet(scores, labels, 9.0, hard_pool=1)
    assert 0 < float(square_triplet(more, padded, 9.0, hard_pool=hard_pool)) <= float(top) + 1e-5
    lone = torch.tensor([0, -1])
    assert float(square_triplet(torch.randn(2, 2), lone, 9.0, hard_pool=hard_pool)) == 0


def test_square_negatives_are_drawn_from_the_pool_both_ways() -> None:
    scores, labels = torch.tensor([[0.0, 1.0, 2.0], [4.0, 0.0, 8.0], [16.0, 32.0, 0.0]]), torch.arange(3)
    # margin 100 keeps every hinge open: the sum tells which negatives were drawn
    seen = {round(3 * (float(square_triplet(scores, labels, 100.0, hard_pool=None)) - 200)) for _ in range(200)}
    rows, columns = [(1, 2), (4, 8), (16, 32)], [(4, 16), (1, 32), (2, 8)]
    expected = {
        sum(row) + sum(column)
        for row in ((a, b, c) for a in rows[0] for b in rows[1] for c in rows[2])
        for column in ((a, b, c) for a in columns[0] for b in columns[1] for c in columns[2])
    }
    assert seen <= expected
    assert len(seen) > 10


def test_proposals_are_means_of_every_stretch_of_clips() -> None:
    clips = torch.randn(5, 3)
    expected = [clips[start : start + k].mean(0) for k in range(1, 6) for start in range(6 - k)]
    assert torch.allclose(window_averages(5) @ clips, torch.stack(expected), atol=1e-6)


@torch.no_grad()
def test_tokens_and_scores_do_not_depend_on_padding_or_batch(model: MSSL, case: Any) -> None:
    rows = case["in.video_order"].argsort()[case["alt.in.video_order"]]
    frames, mask = case["in.frame_video_features"][rows, :96], case["in.videos_mask"][rows, :96] > 0
    dirty = frames + 3 * torch.randn_like(frames) * ~mask[..., None]
    videos = model.encode_videos(dirty, mask, case["in.clip_video_features"][rows])
    torch.testing.assert_close(videos.frames[mask], case["alt.frame.encoded"][mask], atol=1e-5, rtol=0)
    assert not videos.frames[~mask].any()
    queries = case["query.vector"][case["in.query_order"].argsort()[case["alt.in.query_order"]]]
    expected = 0.7 * case["alt.score.clip_cos"] + 0.3 * case["alt.score.frame_cos"]
    torch.testing.assert_close(model.base_score(queries, videos), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.base_score(queries, videos.padded(128)), expected, atol=1e-5, rtol=0)


def test_local_evidence_is_the_frames(videos: VideoTokens, case: Any) -> None:
    assert videos.evidence is videos.frames
    assert torch.equal(videos.evidence_mask, case["in.videos_mask"] > 0)
    assert not videos.frames[~videos.frame_mask].any()


def test_no_gallery_is_prepared_but_all_pairs_are_scored_in_tiles(model: MSSL, case: Any) -> None:
    batch = VideoBatch(case["in.frame_video_features"], case["in.videos_mask"] > 0, case["in.clip_video_features"])
    with pytest.raises(NotSeparable, match="mssl scores each query–video pair by itself"):
        Gallery.build(model, None, [batch])
    queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
    tiled = pairwise_scores(model, queries, [batch], memory_budget=20_000)
    torch.testing.assert_close(tiled, case["score.fused"], atol=1e-5, rtol=0)


def test_a_negative_start_of_hard_negatives_means_never(case: Any) -> None:
    given = case.config | {"use_hard_negative": False, "hard_negative_start_epoch": -1}
    assert MSSL.config_from_official(given).pool_at(500) is None
    assert MSSL.config_from_official(given | {"hard_negative_start_epoch": 3}).pool_at(3) == 1


def test_training_encodes_queries_once(model: MSSL, case: Any) -> None:
    """Unlike its successors, which draw dropout anew for the losses on queries."""
    passes = []
    model.query_encoder.register_forward_hook(lambda *_: passes.append(1))
    batch = VideoBatch(case["in.frame_video_features"], case["in.videos_mask"] > 0, case["in.clip_video_features"])
    queries = QueryBatch(case["in.text_feat"], case["in.text_mask"] > 0)
    model.train().encode_batch(TrainBatch(batch, queries, case["in.text_labels"]))
    assert len(passes) == 1


def test_presets_hold_what_differs_between_datasets() -> None:
    # spec: MS-SL's released scripts
    for dataset, weights in (("activitynet", (0.7, 0.3)), ("charades", (0.5, 0.5)), ("tvr", (0.7, 0.3))):
        model = config_to_dict(load_preset(dataset, "mssl"))["model"]
        assert (model["clip_weight"], model["frame_weight"]) == weights
        assert (model["dropout"], model["input_dropout"], model["hard_negative_epoch"]) == (0.1, 0.1, 20)
        assert (model["weight_nce_clip"], model["weight_nce_frame"], model["hard_pool"]) == (0.02, 0.04, 20)
