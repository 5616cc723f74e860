"""DreamPRVR gives the authors' numbers, and does what their code cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from prvr.backbones import (
    CheckpointMismatch,
    DreamPRVR,
    build,
    from_official,
    load_official,
    official_names,
    to_official,
    total_loss,
)
from prvr.tokens import TrainBatch
from prvr.training import BackboneStage, TraceModel, backbone_optimiser, backbone_rate, load_preset, set_rate

TERMS = {  # ours -> the fixture's
    "nce_clip": "nce_clip",
    "nce_frame": "nce_frame",
    "triplet_clip": "triplet_clip",
    "triplet_frame": "triplet_frame",
    "diversity": "query_diverse",
    "similarity": "query_similarity",
    "kl": "kld",
    "denoise": "denoise_mse",
}


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("dreamprvr")


@pytest.fixture
def model(case: Any) -> DreamPRVR:
    backbone = from_official("dreamprvr", case.weights, case.config)
    assert isinstance(backbone, DreamPRVR)
    return backbone


def without_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0


def training_terms(model: DreamPRVR, batch: TrainBatch, case: Any) -> dict[str, Tensor]:
    """One training step's loss terms with the fixture's random draws."""
    draws = (case["perturb.eps_alpha"], case["perturb.eps_beta"])
    original = model.perturb
    model.perturb = lambda mean_query: original(mean_query, draws)  # type: ignore[method-assign, assignment]
    try:
        return model.objective(model.encode_batch(batch), epoch=0)
    finally:
        model.perturb = original  # type: ignore[method-assign]


def test_tokens_registers_and_scores_are_the_authors(model: DreamPRVR, case: Any) -> None:
    with torch.no_grad():
        queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
        videos = model.encode_videos(
            case["in.frame_video_features"], case["in.videos_mask"], case["in.clip_video_features"]
        )
    assert videos.registers is not None
    case.check("out.query", queries)
    case.check("reg.registers", videos.registers)
    case.check("out.clip", videos.clips)
    case.check("out.frame", videos.frames)
    case.check("out.fused", model.base_score(queries, videos))
    assert float(videos.registers.abs().max()) <= 1


def test_the_latent_and_its_pooling_are_the_authors(model: DreamPRVR, case: Any) -> None:
    with torch.no_grad():
        imagined = model.imagine(model.clip_input(case["in.clip_video_features"]))
        case.check("pvs.gpo_weights", model.sampler.pool.weights())
    case.check("pvs.mu", imagined.mean)
    case.check("pvs.logvar", imagined.log_variance)
    case.check("reg.cond", imagined.condition)


def test_the_noise_schedule_is_the_authors(model: DreamPRVR, case: Any) -> None:
    table = model.diffusion.schedule
    case.check("dif.table.betas", table.beta.float())
    case.check("dif.table.alphas_cumprod", table.kept.float())
    case.check("dif.table.posterior_mean_coef1", table.from_clean.float())
    case.check("dif.table.posterior_mean_coef2", table.from_noisy.float())
    case.check("dif.table.posterior_log_variance_clipped", 2 * table.deviation.log().float())


def test_the_perturbed_target_is_the_authors(model: DreamPRVR, case: Any) -> None:
    queries = model.encode_queries(case["in.text_feat"], case["in.text_mask"])
    mean = model.mean_query(queries, case["in.text_labels"], 5)
    case.check("perturb.x_start", model.perturb(mean, (case["perturb.eps_alpha"], case["perturb.eps_beta"])))


def test_loss_terms_are_the_authors(model: DreamPRVR, batch: TrainBatch, case: Any) -> None:
    terms = training_terms(model, batch, case)
    for ours, theirs in TERMS.items():
        case.check(f"loss.{theirs}", terms[ours])
    case.check("loss.total", total_loss(terms, model.loss_weights))


def test_gradients_of_every_parameter_are_the_authors(
    model: DreamPRVR, batch: TrainBatch, case: Any, by_official_name: Any
) -> None:
    total_loss(training_terms(model, batch, case), model.loss_weights).backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    norms = {name: float(part.norm()) for name, part in by_official_name(model, gradients).items()}
    for name, expected in zip(case.config["grad_names"], case["grad.norm"].tolist(), strict=True):
        assert norms.get(name, -1.0) == pytest.approx(expected, rel=1e-3, abs=1e-6), name


def test_six_steps_of_the_authors_optimiser_give_their_losses(model: DreamPRVR, batch: TrainBatch, case: Any) -> None:
    run = case.config["optim_run"]
    stage = BackboneStage(learning_rate=run["lr"], warmup=run["warmup"], weight_decay=run["weight_decay"])
    optimiser = backbone_optimiser(model, stage)
    losses = []
    for step in range(run["steps"]):
        set_rate(optimiser, run["lr"] * backbone_rate(step, run["t_total"], stage))
        optimiser.zero_grad()
        loss = total_loss(training_terms(model, batch, case), model.loss_weights)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    case.check("train.losses", torch.stack(losses))


def test_weight_decay_falls_on_the_authors_parameters(model: DreamPRVR, case: Any) -> None:
    optimiser = backbone_optimiser(model, BackboneStage())
    names = {parameter: name for name, parameter in model.named_parameters()}
    decayed = {
        official: float(group["weight_decay"] > 0)
        for group in optimiser.param_groups
        for parameter in group["params"]
        for official in official_names(model.official_keys()[names[parameter]])
    }
    expected = dict(zip(case.config["grad_names"], case["optim.decay_flag"].tolist(), strict=True))
    assert decayed == expected


def test_parameters_at_the_charades_configuration_are_36_14_million() -> None:
    model = TraceModel.from_config(load_preset("charades"))
    assert sum(p.numel() for p in model.backbone.parameters()) == 36_139_968  # the authors' count; in print 36.14 M
    assert sum(p.numel() for p in model.parameters()) == 36_729_792  # with TRACE: 36.73 M


def test_tokens_do_not_depend_on_padding_or_batch(model: DreamPRVR, case: Any) -> None:
    rows = case["short.rows"]
    with torch.no_grad():
        videos = model.encode_videos(
            case["short.in.frame_video_features"],
            case["short.in.videos_mask"],
            case["in.clip_video_features"][rows],
        )
        alone = model.encode_videos(
            case["short.in.frame_video_features"][:1],
            case["short.in.videos_mask"][:1],
            case["in.clip_video_features"][rows[:1]],
        )
    assert torch.allclose(videos.frames, case["out.frame"][rows], atol=1e-4)
    assert torch.allclose(alone.frames[0], videos.frames[0], atol=1e-5)


def test_garbage_in_padded_frames_changes_nothing(model: DreamPRVR, case: Any) -> None:
    mask = case["short.in.videos_mask"] > 0
    frames, clips = case["short.in.frame_video_features"], case["in.clip_video_features"][case["short.rows"]]
    with torch.no_grad():
        clean = model.encode_videos(frames, mask, clips)
        dirty = model.encode_videos(frames + 3 * torch.randn_like(frames) * ~mask[..., None], mask, clips)
    assert torch.equal(clean.frames, dirty.frames)
    assert not dirty.frames[~dirty.frame_mask].any()


def test_a_single_query_keeps_its_batch_axis(model: DreamPRVR, case: Any) -> None:
    one = model.encode_queries(case["in.text_feat"][:1], case["in.text_mask"][:1])
    assert one.shape == (1, 32)


@pytest.mark.parametrize("registers", [1, 3])
def test_any_number_of_registers_trains(registers: int, batch: TrainBatch) -> None:
    model = build("dreamprvr", visual_width=20, query_width=24, width=32, registers=registers)
    terms = model.train().objective(model.encode_batch(batch), epoch=0)
    total_loss(terms, model.loss_weights).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_training_encodes_queries_twice_only_with_dropout(model: DreamPRVR, batch: TrainBatch) -> None:
    model.train()
    encoded = model.encode_batch(batch)
    assert not torch.equal(encoded.queries, encoded.per_query["shaped"])
    model.eval()
    encoded = model.encode_batch(batch)
    assert torch.equal(encoded.queries, encoded.per_query["shaped"])


def test_too_many_frames_or_other_widths_are_refused_with_the_fix(model: DreamPRVR, case: Any) -> None:
    clips = case["in.clip_video_features"][:1]
    with pytest.raises(ValueError, match="129 frames per video, but this model has 128 slots: resample"):
        model.encode_videos(torch.zeros(1, 129, 20), torch.ones(1, 129), clips)
    with pytest.raises(ValueError, match="features are 21 wide, but this model was made for 20"):
        model.encode_videos(torch.zeros(1, 9, 21), torch.ones(1, 9), clips)
    with pytest.raises(ValueError, match="31 tokens, but positions were learned for 30"):
        model.encode_queries(torch.zeros(1, 31, 24), torch.ones(1, 31))


def test_official_keys_round_trip(model: DreamPRVR, case: Any) -> None:
    written = to_official(model)
    assert written.keys() == case.weights.keys()
    assert all(torch.equal(written[name], value) for name, value in case.weights.items())


def test_checkpoints_of_wrapped_models_load(case: Any) -> None:
    wrapped = {f"module.{name}": value for name, value in case.weights.items()}
    from_official("dreamprvr", wrapped, case.config)


def test_a_wrong_checkpoint_says_which_keys_or_shapes_differ(model: DreamPRVR, case: Any) -> None:
    fewer = dict(case.weights)
    fewer["extra.weight"] = fewer.pop("modular_vector_mapping.weight")
    with pytest.raises(CheckpointMismatch, match=r"missing \(modular_vector_mapping.weight\).*known \(extra.weight\)"):
        load_official(model, fewer)
    other = dict(case.weights) | {"modular_vector_mapping.weight": torch.zeros(1, 31)}
    with pytest.raises(
        CheckpointMismatch, match=r"modular_vector_mapping.weight has shape \(1, 31\), expected \(1, 32\)"
    ):
        load_official(model, other)
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official("dreamprvr", case.weights, {k: v for k, v in case.config.items() if k != "hidden_size"})
