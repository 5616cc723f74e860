"""GMMFormer v2 gives the authors' numbers, whatever a video is batched with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from prvr.backbones import from_official, max_cosine
from prvr.backbones.blocks.windows import gaussian_window
from prvr.backbones.gmmformer_v2 import GMMFormerV2
from prvr.losses import query_diversity
from prvr.scoring import Gallery, score
from prvr.tokens import VideoBatch
from prvr.training import config_to_dict, load_preset


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("gmmformer_v2")


@pytest.fixture
def model(case: Any) -> GMMFormerV2:
    backbone = from_official("gmmformer_v2", case.weights, case.config)
    assert isinstance(backbone, GMMFormerV2)
    return backbone


def test_the_blend_of_blocks_is_the_authors(model: GMMFormerV2, case: Any) -> None:
    encoder = model.clip_encoder
    with torch.no_grad():
        outputs = encoder.bank(model.clip_input(case["in.clip_video_features"]))
        logits = encoder.aggregate.logits(outputs, token=model.weight_token)
        weights = (logits / model.config.block_temperature).softmax(0).permute(1, 2, 0)
        read = torch.stack([encoder.aggregate.read(model.weight_token.expand(5, 1, 32), block) for block in outputs])
    torch.testing.assert_close(weights, case["clip.branch_weights"], atol=1e-5, rtol=0)
    torch.testing.assert_close(read.squeeze(2).transpose(0, 1), case["clip.branch_tokens"], atol=1e-5, rtol=0)


def test_the_narrowest_window_is_the_authors(case: Any) -> None:
    torch.testing.assert_close(gaussian_window(32, 0.1), case["gauss.L32.w0.1"], atol=1e-5, rtol=0)


def test_the_focal_exponent_of_query_diversity_is_the_authors(case: Any) -> None:
    value = query_diversity(case["query.vector"], case["in.text_labels"], offset=0.2, scale=32, power=2)
    torch.testing.assert_close(value, case["loss.query_diverse_lambda2"], atol=1e-5, rtol=1e-5)


def test_tokens_depend_neither_on_the_batch_nor_on_what_is_in_padding(model: GMMFormerV2, case: Any) -> None:
    rows = case["in.video_order"].argsort()[case["alt.in.video_order"]]
    frames, mask = case["alt.in.frame_video_features"], case["alt.in.videos_mask"] > 0
    dirty = frames + 3 * torch.randn_like(frames) * ~mask[..., None]
    with torch.no_grad():
        queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
        videos = model.encode_videos(dirty, mask, case["in.clip_video_features"][rows])
    torch.testing.assert_close(videos.frames, case["frame.encoded"][rows], atol=1e-5, rtol=0)
    assert videos.frames.shape == (3, 128, 32)
    assert not videos.frames[~videos.frame_mask].any()
    scored = case["in.query_order"].argsort()[case["alt.in.query_order"]]
    for tokens, name in ((videos.clips, "clip_cos"), (videos.frames, "frame_cos")):
        torch.testing.assert_close(max_cosine(queries[scored], tokens), case[f"alt.score.{name}"], atol=1e-5, rtol=0)


def test_local_evidence_is_the_frames_and_a_gallery_scores_alike(model: GMMFormerV2, case: Any) -> None:
    batch = VideoBatch(case["in.frame_video_features"], case["in.videos_mask"] > 0, case["in.clip_video_features"])
    with torch.no_grad():
        videos = model.encode_videos(batch.frames, batch.frame_mask, batch.clips)
        queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
    assert videos.evidence is videos.frames
    assert torch.equal(videos.evidence_mask, batch.frame_mask)
    torch.testing.assert_close(
        score(queries, Gallery.build(model, None, [batch])), case["score.fused"], atol=1e-5, rtol=0
    )


def test_other_numbers_of_clips_frames_and_blocks_work() -> None:
    """The authors' 32, 128 and 8 are literals; here they are settings."""
    config = GMMFormerV2.config_type(
        visual_width=6, query_width=7, width=12, heads=3, clips=5, frames=9, windows=(0.0, 0.1, 2.0)
    )
    model = GMMFormerV2(config).eval()
    videos = model.encode_videos(torch.randn(2, 4, 6), torch.ones(2, 4), torch.randn(2, 5, 6))
    assert (videos.clips.shape, videos.frames.shape) == ((2, 5, 12), (2, 9, 12))
    assert torch.isfinite(videos.frames).all()


def test_presets_hold_what_differs_between_datasets() -> None:
    # spec: GMMFormer v2's released hyper-parameters
    expected = {
        "activitynet": (0.31, 0.6, 0.02, 0.04, 0.003, 0.11, 0.2),
        "charades": (0.25, 0.6, 0.02, 0.04, 0.003, 0.1, 0.2),
        "tvr": (0.2, 0.09, 0.05, 0.04, 8e-5, 0.09, 0.15),
    }
    names = (
        "dropout", "block_temperature", "weight_nce_clip", "weight_nce_frame", "weight_diversity", "weight_matching",
        "diversity_offset",
    )  # fmt: skip
    for dataset, numbers in expected.items():
        model = config_to_dict(load_preset(dataset, "gmmformer_v2"))["model"]
        assert tuple(model[name] for name in names) == numbers
        assert (model["input_dropout"], model["diversity_scale"], model["diversity_power"]) == (numbers[0], 32.0, 1.0)
        assert (model["clip_weight"], model["frame_weight"], model["hard_negative_epoch"]) == (0.7, 0.3, 20)
