"""MSC-PRVR gives the authors' numbers: preparation, tokens, scores, every loss term, gradients and optimiser steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import build, from_official, max_cosine, max_dot, to_official, total_loss
from prvr.backbones.blocks.segments import level_of, linked_share, merged_segments, segment_levels
from prvr.backbones.msc_prvr import MSCPRVR
from prvr.data import DataError, TableSettings, prepare_video
from prvr.data.merging import merge_rounds, merge_slots
from prvr.data.resample import segment_mean
from prvr.losses import angle_relation, distance_relation, relations, segment_alignment, segment_of_frames
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch
from prvr.training import BackboneStage, backbone_optimiser, backbone_rate, load_preset, set_rate

TERMS = {  # ours -> the fixture's
    "nce_clip": "clip_nce",
    "nce_frame": "frame_nce",
    "triplet_clip": "clip_triplet",
    "triplet_frame": "frame_triplet",
    "distance": "text_distance",
    "angle": "text_angle",
    "alignment": "alignment",
}


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("msc_prvr")


@pytest.fixture
def model(case: Any) -> MSCPRVR:
    backbone = from_official("msc_prvr", case.weights, case.config)
    assert isinstance(backbone, MSCPRVR)
    return backbone


@pytest.fixture
def batch(case: Any) -> TrainBatch:
    videos = VideoBatch(
        case["in.frame_video_features"],
        case["in.videos_mask"] > 0,
        case["in.clip_video_features"],
        clip_sizes=case["in.merge_size"],
    )
    return TrainBatch(videos, QueryBatch(case["in.text_feat"], case["in.text_mask"] > 0), case["in.text_labels"])


def loss_of(model: MSCPRVR, batch: TrainBatch) -> Tensor:
    return total_loss(model.objective(model.encode_batch(batch), epoch=0), model.loss_weights)


def test_slots_and_merged_clips_are_the_authors_for_every_length(case: Any) -> None:
    """Where equal pairs meet the cut, the earlier one merges."""
    tied = [item["frames"] for item in case.config["data"]["prep"] if item["equal_values_meet_a_cut"]]
    assert tied
    for item in case.config["data"]["prep"]:
        name = f"prep.n{item['frames']}"
        slots = segment_mean(case[f"{name}.raw"].numpy(), 128)
        if f"{name}.slots" in case.tensors:
            torch.testing.assert_close(torch.from_numpy(slots), case[f"{name}.slots"], atol=1e-6, rtol=0)
        rows, sizes = merge_slots(slots, 32)
        assert sizes.tolist() == case[f"{name}.sizes"].tolist(), name
        torch.testing.assert_close(torch.from_numpy(rows), case[f"{name}.clips"], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("frames", "clips"), [(256, 32), (128, 16), (16, 32)])
def test_frames_that_cannot_be_merged_are_refused_with_those_that_can(frames: int, clips: int) -> None:
    with pytest.raises(DataError, match=f"choose {clips} to {5 * clips} frames"):
        merge_rounds(frames, clips)
    assert merge_rounds(5 * clips, clips)[-1] == merge_rounds(clips, clips)[-1] == clips


def test_tokens_and_scores_are_the_authors(model: MSCPRVR, case: Any, batch: TrainBatch) -> None:
    with torch.no_grad():
        queries = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        videos = model.encode_video_batch(batch.videos)
    for value, name in (
        (queries, "query.vector"),
        (videos.clips, "clip.encoded"),
        (videos.frames, "frame.encoded"),
        (max_cosine(queries, videos.clips), "score.clip_cos"),
        (max_dot(queries, videos.clips), "score.clip_dot"),
        (max_cosine(queries, videos.frames), "score.frame_cos"),
        (max_dot(queries, videos.frames), "score.frame_dot"),
        (model.base_score(queries, videos), "score.fused"),
    ):
        torch.testing.assert_close(value, case[name], atol=2e-5, rtol=0)
    assert videos.evidence is videos.frames


def test_clips_attend_to_each_other_by_their_sizes(model: MSCPRVR, case: Any, batch: TrainBatch) -> None:
    """The window comes first, then the logarithm of the size of what is attended to."""
    one, videos = int(case["one"]), batch.videos
    bank, sizes = model.clip_encoder.bank, case["in.merge_size"]
    with torch.no_grad():
        x = model.clip_input(videos.clips)[one : one + 1]
        query, key = (
            (x @ bank.qkv_weight[0, part].T + bank.qkv_bias[0, part])[0, :, :8] for part in (0, 1)
        )  # the first of four heads
        attention = (query @ key.T / 8**0.5 + sizes[one].log()).softmax(-1)
        plain = model.encode_videos(videos.frames, videos.frame_mask, videos.clips)
        even = model.encode_videos(videos.frames, videos.frame_mask, videos.clips, torch.full_like(sizes, 4.0))
        given = model.encode_video_batch(videos)
    torch.testing.assert_close(attention, case["clip.attention0.one"], atol=1e-5, rtol=0)
    torch.testing.assert_close(plain.clips, even.clips, atol=1e-5, rtol=0)  # equal sizes are no sizes
    assert float((plain.clips - given.clips).abs().max()) > 1e-2


def test_videos_are_cut_into_the_authors_segments(case: Any, batch: TrainBatch) -> None:
    clips, sizes = batch.videos.clips, case["in.merge_size"]
    share = linked_share(clips, case.config["sim_thr"])
    torch.testing.assert_close(share, case["align.linked_ratio"])
    level = level_of(share)
    assert [segment_levels(32)[i] for i in level.tolist()] == case["align.count"].tolist()
    labels = segment_of_frames(sizes, merged_segments(clips, sizes, level), 128)
    assert torch.equal(labels, case["align.labels"])
    row = int(case["align.chain.video"])
    for step, count in enumerate((20, 12, 8, 5), 1):
        one = merged_segments(clips[row : row + 1], sizes[row : row + 1], torch.tensor([step]))
        assert torch.equal(segment_of_frames(sizes[row : row + 1], one, 128)[0], case[f"align.chain.{count}.labels"])


def test_loss_terms_are_the_authors(model: MSCPRVR, batch: TrainBatch, case: Any) -> None:
    encoded = model.encode_batch(batch)
    torch.testing.assert_close(encoded.per_query["teacher"], case["query.teacher"])
    terms = model.objective(encoded, epoch=0)
    assert terms.keys() == model.loss_weights.keys() == TERMS.keys()
    for ours, value in terms.items():
        torch.testing.assert_close(value, case[f"loss.{TERMS[ours]}"], atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(total_loss(terms, model.loss_weights), case["loss.total"], atol=1e-5, rtol=0)
    frames, clips = model.align(encoded.videos.frames), model.align(encoded.videos.clips)
    found = segment_alignment(frames, clips, encoded.per_video["sizes"], encoded.per_video["segments"])
    for name, values in found._asdict().items():
        torch.testing.assert_close(values, case[f"align.{name}"], atol=1e-5, rtol=1e-5)


def test_relations_and_alignment_have_the_authors_values_and_gradients(case: Any) -> None:
    student, labels = case["rkd_case.student"].clone().requires_grad_(), torch.zeros(7, dtype=torch.long)
    for name, relation in (("distance", distance_relation), ("angle", angle_relation)):
        value = relation(student, case["rkd_case.teacher"], labels)
        torch.testing.assert_close(value, case[f"rkd_case.{name}"], atol=1e-6, rtol=0)
        (gradient,) = torch.autograd.grad(value, student)
        torch.testing.assert_close(gradient, case[f"rkd_case.{name}_grad"], atol=1e-6, rtol=1e-3)
    frames, clips = (case[f"align_case.{name}"].clone().requires_grad_() for name in ("frames", "clips"))
    sizes, level = case["align_case.sizes"], level_of(case["align_case.ratios"])
    segments = merged_segments(case["align_case.features"], sizes, level)
    found = segment_alignment(frames, clips, sizes, segments)
    value = (found.frame_to_clip + found.clip_to_frame).mean()
    torch.testing.assert_close(value, case["align_case.value"], atol=1e-5, rtol=0)
    value.backward()  # type: ignore[no-untyped-call]
    for leaf, name in ((frames, "frames"), (clips, "clips")):
        torch.testing.assert_close(leaf.grad, case[f"align_case.{name}_grad"], atol=1e-6, rtol=1e-3)


def test_gradients_of_every_parameter_are_the_authors(
    model: MSCPRVR, batch: TrainBatch, case: Any, by_official_name: Any
) -> None:
    terms = model.objective(model.encode_batch(batch), epoch=0)
    own = {"alignment": "alignment", "distance": "text_distance", "angle": "text_angle"}
    losses = {"norm": total_loss(terms, model.loss_weights)} | {f"{own[n]}_norm": terms[n] for n in own}
    for name, loss in losses.items():
        model.zero_grad()
        loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        grads = by_official_name(model, {n: p.grad for n, p in model.named_parameters() if p.grad is not None})
        expected = dict(zip(case.config["grad_names"], case[f"grad.{name}"].tolist(), strict=True))
        for key, value in expected.items():
            found = float(grads[key].norm()) if key in grads else 0.0
            assert found == pytest.approx(max(0.0, value), rel=1e-3, abs=2e-6), (name, key)
        if name == "norm":
            for key in expected:
                if f"grad.{key}" in case.tensors:
                    torch.testing.assert_close(grads[key], case[f"grad.{key}"], atol=1e-5, rtol=1e-3)


def test_three_steps_of_the_authors_optimiser_give_their_losses_and_weights(
    model: MSCPRVR, batch: TrainBatch, case: Any
) -> None:
    run = case.config["optimiser"]
    stage = BackboneStage(learning_rate=run["lr"], warmup=run["warmup"], weight_decay=run["weight_decay"])
    optimiser, losses = backbone_optimiser(model, stage), []
    for step in range(run["steps"]):
        set_rate(optimiser, run["lr"] * backbone_rate(step, run["t_total"], stage))
        optimiser.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())
    losses.append(loss_of(model, batch).detach())
    torch.testing.assert_close(torch.stack(losses).double(), case["train.losses"], atol=1e-4, rtol=0)
    after = to_official(model)
    for name in (key.removeprefix("train.final.") for key in case.tensors if key.startswith("train.final.")):
        torch.testing.assert_close(after[name], case[f"train.final.{name}"], atol=1e-5, rtol=1e-3)


def test_padding_queries_and_the_order_of_queries_change_no_loss(model: MSCPRVR, batch: TrainBatch) -> None:
    order, queries = torch.randperm(len(batch.labels)), batch.queries
    noise = torch.randn(3, *queries.tokens.shape[1:])
    tokens = torch.cat([queries.tokens[order], noise])
    mask = torch.cat([queries.mask[order], queries.mask[:1].expand(3, -1)])
    labels = torch.cat([batch.labels[order], torch.full((3,), -1)])
    changed = TrainBatch(batch.videos, QueryBatch(tokens, mask), labels)
    torch.testing.assert_close(loss_of(model, changed), loss_of(model, batch), atol=1e-4, rtol=0)


def test_few_queries_and_one_video_have_a_finite_loss(model: MSCPRVR, batch: TrainBatch) -> None:
    """The authors' code gives NaN or fails."""
    queries = QueryBatch(batch.queries.tokens[:1], batch.queries.mask[:1])
    videos = VideoBatch(**{name: tensor[:1] for name, tensor in batch.videos.tensors().items()})
    loss = loss_of(model, TrainBatch(videos, queries, batch.labels[:1]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_alignment_stays_finite_where_a_positive_vanishes() -> None:
    frames, clips = 60 * torch.eye(8)[:, :4], -60 * torch.eye(4)
    frames, clips = frames[None].requires_grad_(), clips[None].requires_grad_()
    found = segment_alignment(frames, clips, torch.full((1, 4), 2.0), torch.arange(4)[None])
    loss = sum(value.sum() for value in found)
    assert isinstance(loss, Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(loss)
    assert frames.grad is not None
    assert bool(torch.isfinite(frames.grad).all())


def test_angles_in_parts_are_the_angles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    student, teacher, labels = torch.randn(9, 5), torch.randn(9, 6), torch.tensor([0, 0, 1, 1, -1, 2, 2, 3, -1])
    values = []
    for together in (1 << 25, 81 * 2):
        monkeypatch.setattr(relations, "_AT_ONCE", together)
        leaf = student.clone().requires_grad_()
        value = angle_relation(leaf, teacher, labels)
        values.append((value.detach(), torch.autograd.grad(value, leaf)[0]))
    torch.testing.assert_close(values[0], values[1])


def test_a_training_step_waits_for_no_value(model: MSCPRVR, batch: TrainBatch, authors: Any, monkeypatch: Any) -> None:
    helper = authors("msc_prvr")
    monkeypatch.setattr(type(helper), "batch", lambda self, padding=0: batch)
    helper.check_no_waiting(model, epoch=0)


def test_other_numbers_of_slots_and_clips_work_and_too_few_slots_are_refused() -> None:
    prepared = prepare_video(torch.randn(7, 6).numpy(), TableSettings(5, 12, 9, "merged"))
    assert (prepared.frames.shape, prepared.clips.shape) == ((12, 6), (5, 6))
    assert prepared.sizes is not None
    assert prepared.sizes.sum() == 12
    model = build("msc_prvr", visual_width=6, query_width=7, width=12, heads=3, clips=5, frames=12, windows=(0.0, 2.0))
    sizes = torch.from_numpy(prepared.sizes)[None].float()
    frames, clips = torch.from_numpy(prepared.frames)[None], torch.from_numpy(prepared.clips)[None]
    videos = VideoBatch(frames, torch.ones(1, 12, dtype=torch.bool), clips, clip_sizes=sizes)
    queries = QueryBatch(torch.randn(2, 4, 7), torch.ones(2, 4, dtype=torch.bool))
    assert isinstance(model, MSCPRVR)
    assert torch.isfinite(loss_of(model, TrainBatch(videos, queries, torch.zeros(2, dtype=torch.long))))
    with pytest.raises(DataError, match=r"8 slots \(model.frames\) cannot be merged into 32 clips"):
        prepare_video(torch.randn(7, 6).numpy(), TableSettings(32, 8, 9, "merged"))


def test_the_authors_evaluation_gives_their_scores(model: MSCPRVR, batch: TrainBatch, case: Any) -> None:
    order = case["evalrun.query_order"]
    with torch.no_grad():
        queries = model.encode_queries(batch.queries.tokens[order], batch.queries.mask[order])
        found = model.base_score(queries, model.encode_video_batch(batch.videos))
    torch.testing.assert_close(found, case["evalrun.fused"], atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("tvr", (768, 768, 0.2, 0.1, 0.09, 0.05, 0.8, 3e-4)),
        ("activitynet", (768, 768, 0.31, 0.2, 0.6, 0.02, 0.8, 2.5e-4)),
        ("charades", (768, 768, 0.25, 0.2, 0.6, 0.02, 0.85, 2e-4)),
        ("qvhighlight", (2816, 512, 0.31, 0.2, 0.6, 0.02, 0.7, 2.5e-4)),
    ],
)
def test_presets_hold_the_papers_settings(dataset: str, expected: tuple[float, ...]) -> None:
    config = load_preset(dataset, "msc_prvr")
    model: Any = config.model
    found = (model.visual_width, model.query_width, model.dropout, model.margin, model.block_temperature)
    rest = (model.weight_nce_clip, model.link_threshold, config.backbone_stage.learning_rate)
    assert found + rest == expected
    shared = (model.weight_distance, model.weight_angle, model.weight_alignment, model.clip_weight, model.words)
    assert shared == (15.0, 30.0, 0.1, 0.4, 77)
    assert (config.batch_size, config.backbone_stage.epochs, config.backbone_stage.patience) == (128, 100, 10)
    if dataset == "charades":
        assert model == replace(type(model)())
    # spec: parameters with 768/768 and with 2816/512
    count = sum(p.numel() for p in build("msc_prvr", model).parameters())
    assert count == (32_142_880 if dataset == "qvhighlight" else 30_660_640)
