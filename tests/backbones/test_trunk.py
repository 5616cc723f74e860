"""MS-SL, GMMFormer and GMMFormer v2 train as their authors' code does, and their checkpoints come and go whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import (
    CheckpointMismatch,
    build,
    from_official,
    load_official,
    max_cosine,
    max_dot,
    official_names,
    to_official,
    total_loss,
)
from prvr.backbones.trunk import Trunk
from prvr.data import DATASETS
from prvr.losses import LEFT_OUT
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch
from prvr.training import (
    BackboneStage,
    backbone_optimiser,
    backbone_rate,
    config_from_dict,
    config_to_dict,
    load_preset,
    preset_names,
    set_rate,
)

TERMS = {  # ours -> the fixtures'
    "nce_clip": "clip_nce",
    "nce_frame": "frame_nce",
    "triplet_clip": "clip_triplet",
    "triplet_frame": "frame_triplet",
    "diversity": "query_diverse",
    "matching": "optimal_matching",
}
# spec: parameters with 1024/1024-wide features (ActivityNet, Charades) and with 3072/768 (TVR)
PARAMETERS = {
    "gmmformer": (11_366_016, 12_848_256),
    "gmmformer_v2": (30_791_200, 32_273_440),
    "mssl": (3_370_752, 4_852_992),
}
LEARNING_RATES = {
    "gmmformer": {"activitynet": 2.5e-4, "charades": 2.5e-4, "tvr": 3e-4},
    "gmmformer_v2": {"activitynet": 2.5e-4, "charades": 2e-4, "tvr": 3e-4},
    "mssl": {"activitynet": 2.5e-4, "charades": 2.5e-4, "tvr": 2.5e-4},
}


@pytest.fixture(params=sorted(PARAMETERS))
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def case(method: str, golden: Callable[[str], Any]) -> Any:
    return golden(method)


@pytest.fixture
def model(method: str, case: Any) -> Trunk:
    backbone = from_official(method, case.weights, case.config)
    assert isinstance(backbone, Trunk)
    return backbone


def loss_of(model: Trunk, batch: TrainBatch) -> Tensor:
    return total_loss(model.objective(model.encode_batch(batch), epoch=0), model.loss_weights)


@pytest.mark.parametrize("method", ["gmmformer", "gmmformer_v2"])  # MS-SL's frames differ on padding, see test_mssl
def test_tokens_and_scores_are_the_authors(model: Trunk, case: Any, batch: TrainBatch) -> None:
    with torch.no_grad():
        queries = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        videos = model.encode_video_batch(batch.videos)
    pooled = "frame.vector" in case.tensors  # GMMFormer's frames are one vector
    for value, name, within in (
        (queries, "query.vector", 1e-5),
        (videos.clips, "clip.encoded", 1e-5),
        (videos.frames.squeeze(1), "frame.vector" if pooled else "frame.encoded", 1e-5),
        (max_cosine(queries, videos.clips), "score.clip_cos", 1e-5),
        (max_dot(queries, videos.clips), "score.clip_dot", 5e-5),
        (max_cosine(queries, videos.frames), "score.frame_cos", 1e-5),
        (max_dot(queries, videos.frames), "score.frame_dot", 5e-5),
        (model.base_score(queries, videos), "score.fused", 1e-5),
    ):
        torch.testing.assert_close(value, case[name], atol=within, rtol=0)
    # GMMFormer v2 has a short video whose frames all oppose a query: its padding wins.
    assert pooled or bool((case["score.frame_cos"] == 0).any())


def test_loss_terms_are_the_authors(model: Trunk, batch: TrainBatch, case: Any) -> None:
    terms = model.objective(model.encode_batch(batch), epoch=0)
    assert terms.keys() == model.loss_weights.keys()
    for ours, value in terms.items():
        torch.testing.assert_close(value, case[f"loss.{TERMS[ours]}"], atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(total_loss(terms, model.loss_weights), case["loss.total"], atol=1e-5, rtol=0)


def test_gradients_of_every_parameter_are_the_authors(
    model: Trunk, batch: TrainBatch, case: Any, by_official_name: Any
) -> None:
    loss_of(model, batch).backward()
    gradients = by_official_name(model, {n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert gradients.keys() == case.config["grad_norms"].keys()
    for name, expected in case.config["grad_norms"].items():
        assert float(gradients[name].norm()) == pytest.approx(expected, rel=1e-3, abs=1e-6), name
    whole = [name.removeprefix("grad.") for name in case.tensors if name.startswith("grad.")]
    assert len(whole) >= 4
    for name in whole:
        torch.testing.assert_close(gradients[name], case[f"grad.{name}"], atol=1e-5, rtol=0)


def test_six_steps_of_the_authors_optimiser_give_their_losses_and_weights(
    model: Trunk, batch: TrainBatch, case: Any
) -> None:
    run = case.config["optimiser"]
    stage = BackboneStage(learning_rate=run["lr"], warmup=run["warmup"], weight_decay=run["weight_decay"])
    optimiser = backbone_optimiser(model, stage)
    losses = []
    for step in range(run["steps"]):
        set_rate(optimiser, run["lr"] * backbone_rate(step, run["t_total"], stage))
        optimiser.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    losses.append(loss_of(model, batch).detach())
    torch.testing.assert_close(torch.stack(losses).double(), case["train.loss_trajectory"], atol=1e-4, rtol=0)
    after = to_official(model)
    for name in (key.removeprefix("train.final.") for key in case.tensors if key.startswith("train.final.")):
        torch.testing.assert_close(after[name], case[f"train.final.{name}"], atol=1e-3, rtol=0)


def test_weight_decay_falls_on_the_authors_parameters(model: Trunk, case: Any) -> None:
    optimiser = backbone_optimiser(model, BackboneStage())
    names = {parameter: name for name, parameter in model.named_parameters()}
    decayed = {
        official: bool(group["weight_decay"] > 0)
        for group in optimiser.param_groups
        for parameter in group["params"]
        for official in official_names(model.official_keys()[names[parameter]])
    }
    spared = case.config["optimiser"]["no_decay_if_name_contains"]
    assert decayed == {name: not any(part in name for part in spared) for name in case.weights}


def test_parameters_are_as_many_as_published(method: str) -> None:
    sizes = [{"visual_width": 1024, "query_width": 1024}, {"visual_width": 3072, "query_width": 768}]
    counts = tuple(sum(p.numel() for p in build(method, **size).parameters()) for size in sizes)
    assert counts == PARAMETERS[method]


def test_an_evaluation_in_small_batches_gives_the_authors_scores(model: Trunk, case: Any) -> None:
    """The authors' loaders: videos in dataset order three at a time, padded to the longest of those three."""
    place = case["in.video_order"].argsort()
    query_rows = case["in.query_order"].argsort()[case["evalrun.query_order"]]
    queries = model.encode_queries(case["in.text_feat"][query_rows], case["in.text_mask"][query_rows])
    columns = []
    for rows in place.split(case.config["data"]["eval_context_batch"]):
        mask = case["in.videos_mask"][rows]
        longest = int(mask.sum(1).max())
        frames = case["in.frame_video_features"][rows, :longest]
        videos = model.encode_videos(frames, mask[:, :longest], case["in.clip_video_features"][rows])
        columns.append(model.base_score(queries, videos))
    torch.testing.assert_close(torch.cat(columns, 1), case["evalrun.fused"], atol=1e-5, rtol=0)


def test_padding_queries_change_no_loss(model: Trunk, batch: TrainBatch) -> None:
    queries = batch.queries
    more = QueryBatch(F.pad(queries.tokens, (0, 0, 0, 0, 0, 3)), F.pad(queries.mask, (0, 0, 0, 3)))
    padded = TrainBatch(batch.videos, more, F.pad(batch.labels, (0, 3), value=-1))
    clean = model.objective(model.encode_batch(batch), epoch=0)
    dirty = model.objective(model.encode_batch(padded), epoch=0)
    for name, value in clean.items():
        torch.testing.assert_close(dirty[name], value, atol=1e-6, rtol=1e-6)
    total_loss(dirty, model.loss_weights).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_ranking_losses_do_not_look_at_pairs_that_are_left_out(model: Trunk, batch: TrainBatch) -> None:
    if not model.takes_residual:
        pytest.skip("its losses cannot leave pairs out")
    encoded = model.encode_batch(batch)
    wrong = batch.labels[:, None] != torch.arange(len(batch.videos))
    for epoch in (0, 99):  # negatives drawn from all, and the hardest
        terms = model.objective(replace(encoded, residual=LEFT_OUT * wrong), epoch=epoch)
        for name in ("nce_clip", "nce_frame", "triplet_clip", "triplet_frame"):
            assert terms[name].item() == pytest.approx(0, abs=1e-5), name


def test_losses_do_not_depend_on_the_order_of_queries(model: Trunk, batch: TrainBatch) -> None:
    order = torch.randperm(len(batch.labels))
    queries = QueryBatch(batch.queries.tokens[order], batch.queries.mask[order])
    shuffled = TrainBatch(batch.videos, queries, batch.labels[order])
    torch.testing.assert_close(loss_of(model, shuffled), loss_of(model, batch), atol=1e-5, rtol=0)


def test_random_negatives_train_before_the_hard_ones(method: str, batch: TrainBatch) -> None:
    model = build(method, visual_width=24, query_width=20, width=32, hard_negative_epoch=5).train()
    generator = torch.Generator().manual_seed(0)
    terms = model.objective(model.encode_batch(batch), epoch=0, generator=generator)
    total_loss(terms, model.loss_weights).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_one_query_one_video_one_frame(model: Trunk, case: Any) -> None:
    """Batches that the authors' code cannot take."""
    query = model.encode_queries(case["in.text_feat"][:1, :1], case["in.text_mask"][:1, :1])
    videos = model.encode_videos(
        case["in.frame_video_features"][:1, :1], torch.ones(1, 1), case["in.clip_video_features"][:1]
    )
    assert query.shape == (1, 32)
    score = model.base_score(query, videos)
    assert score.shape == (1, 1)
    assert torch.isfinite(score).all()
    alone = TrainBatch(
        VideoBatch(
            case["in.frame_video_features"][:1], case["in.videos_mask"][:1] > 0, case["in.clip_video_features"][:1]
        ),
        QueryBatch(case["in.text_feat"][:1], case["in.text_mask"][:1] > 0),
        torch.zeros(1, dtype=torch.long),
    )
    loss = loss_of(model, alone)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_too_many_frames_clips_or_words_are_refused_with_the_fix(model: Trunk, case: Any) -> None:
    clips = case["in.clip_video_features"][:1]
    with pytest.raises(ValueError, match="129 frames per video, but this model has 128 slots: resample"):
        model.encode_videos(torch.zeros(1, 129, 24), torch.ones(1, 129), clips)
    with pytest.raises(ValueError, match="31 clips per video, but this model was made for 32"):
        model.encode_videos(torch.zeros(1, 9, 24), torch.ones(1, 9), clips[:, :31])
    with pytest.raises(ValueError, match="31 tokens, but positions were learned for 30"):
        model.encode_queries(torch.zeros(1, 31, 20), torch.ones(1, 31))


def test_official_keys_round_trip(method: str, model: Trunk, case: Any) -> None:
    written = to_official(model)
    assert written.keys() == case.weights.keys()
    assert all(torch.equal(written[name], value) for name, value in case.weights.items())
    from_official(method, {f"module.{name}": value for name, value in written.items()}, case.config)


def test_a_wrong_checkpoint_says_which_keys_or_shapes_differ(method: str, model: Trunk, case: Any) -> None:
    fewer = dict(case.weights)
    fewer["extra.weight"] = fewer.pop("modular_vector_mapping.weight")
    with pytest.raises(CheckpointMismatch, match=r"missing \(modular_vector_mapping.weight\).*known \(extra.weight\)"):
        load_official(model, fewer)
    other = dict(case.weights) | {"modular_vector_mapping.weight": torch.zeros(1, 31)}
    with pytest.raises(
        CheckpointMismatch, match=r"modular_vector_mapping.weight has shape \(1, 31\), expected \(1, 32"
    ):
        load_official(model, other)
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official(method, case.weights, {k: v for k, v in case.config.items() if k != "hidden_size"})


@pytest.mark.parametrize("name", ["activitynet", "charades", "tvr"])
def test_presets_hold_the_published_numbers(method: str, name: str) -> None:
    config, spec = load_preset(name, method), DATASETS[name]
    assert (config.model.visual_width, config.model.query_width) == (spec.visual_width, spec.query_width)
    assert (config.data.collection, config.data.visual_feature) == (name, spec.visual_feature)
    assert config.backbone_stage.learning_rate == LEARNING_RATES[method][name]
    assert config_to_dict(config)["model"]["margin"] == (0.1 if name == "tvr" else 0.2)
    assert (config.method, config.batch_size, config.backbone_stage.epochs) == (method, 128, 100)
    assert (config.trace_stage.epochs, config.selection, config.backbone_stage.patience) == (0, "best", 10)
    assert config_from_dict(config_to_dict(config), "here") == config


def test_defaults_are_the_charades_preset(method: str) -> None:
    assert load_preset("charades", method).model == type(build(method, width=32).config)()


def test_presets_open_with_the_command_that_uses_them(method: str) -> None:
    assert preset_names(method) == ["activitynet", "charades", "qvhighlights", "synth", "tvr"]
    for name in preset_names(method):
        text = (files("prvr") / "presets" / method / f"{name}.toml").read_text("utf-8")
        assert text.startswith("# prvr ")
        assert f"prvr train {name} --method {method} --data DIR\n" in text
        load_preset(name, method)
