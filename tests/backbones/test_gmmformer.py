"""GMMFormer gives the authors' numbers, and a mode in which a video does not depend on its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from prvr.backbones import from_official, max_cosine
from prvr.backbones.blocks.windows import gaussian_window
from prvr.backbones.gmmformer import GMMFormer
from prvr.scoring import Gallery, score
from prvr.tokens import VideoBatch
from prvr.training import BackboneStage, backbone_rate, config_to_dict, load_preset, set_rate
from prvr.training.optim import BertAdam


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("gmmformer")


@pytest.fixture
def model(case: Any) -> GMMFormer:
    backbone = from_official("gmmformer", case.weights, case.config)
    assert isinstance(backbone, GMMFormer)
    return backbone


@pytest.mark.parametrize("length", [1, 2, 7, 32])
@pytest.mark.parametrize("width", [0.5, 1, 5])
def test_windows_are_the_authors(length: int, width: float, case: Any) -> None:
    expected = case[f"gauss.L{length}.w{width:g}"]
    torch.testing.assert_close(gaussian_window(length, width), expected, atol=1e-5, rtol=0)


def test_a_narrow_window_over_a_few_slots_stays_finite() -> None:
    assert all(torch.isfinite(gaussian_window(length, 0.1)).all() for length in range(1, 9))  # 0/0 in the authors' code


def test_local_evidence_is_the_clips(model: GMMFormer, case: Any) -> None:
    videos = model.encode_videos(
        case["in.frame_video_features"], case["in.videos_mask"], case["in.clip_video_features"]
    )
    assert videos.evidence is videos.clips
    assert videos.evidence_mask.shape == (5, 32)
    assert videos.evidence_mask.all()
    assert (videos.frames.shape, videos.frame_mask.tolist()) == ((5, 1, 32), [[True]] * 5)


def test_the_authors_windows_lie_over_the_longest_video_of_a_batch(model: GMMFormer, case: Any) -> None:
    rows = case["in.video_order"].argsort()[case["alt.in.video_order"]]
    with torch.no_grad():
        queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
        videos = model.encode_videos(
            case["alt.in.frame_video_features"], case["alt.in.videos_mask"], case["in.clip_video_features"][rows]
        )
    torch.testing.assert_close(videos.frames.squeeze(1), case["alt.frame.vector"], atol=1e-5, rtol=0)
    scored = case["in.query_order"].argsort()[case["alt.in.query_order"]]
    cosines = max_cosine(queries[scored], videos.frames)
    torch.testing.assert_close(cosines, case["alt.score.frame_cos"], atol=1e-5, rtol=0)
    assert float((videos.frames.squeeze(1) - case["frame.vector"][rows]).abs().max()) > 0.01


def test_windows_over_all_slots_make_a_video_independent_of_its_batch(model: GMMFormer, case: Any) -> None:
    fixed = GMMFormer(replace(model.config, windows_over_slots=True)).eval()
    fixed.load_state_dict(model.state_dict())
    rows = case["in.video_order"].argsort()[case["alt.in.video_order"]]
    mask, clips = case["alt.in.videos_mask"] > 0, case["in.clip_video_features"][rows]
    frames = case["alt.in.frame_video_features"]
    dirty = frames + 3 * torch.randn_like(frames) * ~mask[..., None]
    with torch.no_grad():
        together = fixed.encode_videos(dirty, mask, clips)
        alone = fixed.encode_videos(frames[2:, :17], mask[2:, :17], clips[2:])
    # A batch that holds a 128-frame video has windows over all slots in the authors' code too.
    torch.testing.assert_close(together.frames.squeeze(1), case["frame.vector"][rows], atol=1e-5, rtol=0)
    assert int(mask[2].sum()) == 17
    torch.testing.assert_close(alone.frames, together.frames[2:], atol=1e-5, rtol=0)


def test_a_gallery_gives_the_same_scores(model: GMMFormer, case: Any) -> None:
    videos = VideoBatch(case["in.frame_video_features"], case["in.videos_mask"] > 0, case["in.clip_video_features"])
    with torch.no_grad():
        queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
    gallery = Gallery.build(model, None, [videos])
    torch.testing.assert_close(score(queries, gallery), case["score.fused"], atol=1e-5, rtol=0)


def test_the_optimiser_alone_is_the_authors(case: Any) -> None:
    """Eight steps on given gradients, two of them past the end of a schedule of six."""
    stage = BackboneStage(warmup=0.34)
    names = [key.removeprefix("optim.init.") for key in case.tensors if key.startswith("optim.init.")]
    parameters = {name: nn.Parameter(case[f"optim.init.{name}"].clone()) for name in names}
    spared = {name: "bias" in name or "LayerNorm.weight" in name for name in names}
    optimiser = BertAdam(
        [
            {"params": [p for name, p in parameters.items() if spared[name]], "weight_decay": 0.0},
            {"params": [p for name, p in parameters.items() if not spared[name]], "weight_decay": 0.01},
        ],
        0.1,
    )
    for step in range(8):
        set_rate(optimiser, 0.1 * backbone_rate(step, 6, stage))
        for name, parameter in parameters.items():
            parameter.grad = case[f"optim.grad.{name}"][step].clone()
        optimiser.step()
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter.data, case[f"optim.after.{name}"][step], atol=1e-5, rtol=0)


def test_presets_hold_what_differs_between_datasets() -> None:
    # spec: GMMFormer's released hyper-parameters
    expected = {
        "activitynet": (0.2, 20, 0.02, 0.04, 0.015, 0.2),
        "charades": (0.15, 100, 0.02, 0.02, 0.005, 0.15),
        "tvr": (0.2, 30, 0.05, 0.04, 0.001, 0.15),
    }
    names = (
        "dropout", "hard_negative_epoch", "weight_nce_clip", "weight_nce_frame", "weight_diversity", "diversity_offset",
    )  # fmt: skip
    for dataset, numbers in expected.items():
        model = config_to_dict(load_preset(dataset, "gmmformer"))["model"]
        assert tuple(model[name] for name in names) == numbers
        assert (model["input_dropout"], model["diversity_scale"]) == (model["dropout"], 32.0)
        assert (model["clip_weight"], model["frame_weight"]) == (0.7, 0.3)
        assert model["windows"] == (0.0, 0.5, 1.0, 5.0)
