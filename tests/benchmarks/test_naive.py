"""The baseline does the product's work in another form: same losses, gradients, updates, scores and ranks."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import DreamPRVR, DreamPRVRConfig, build, to_official, unstack
from prvr.scoring import Gallery, ranks, recalls, score, score_parts
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch
from prvr.trace import Trace
from prvr.training import BackboneStage, PhaseEpoch, PlainStep, TraceModel, TraceStage, backbone_optimiser

NOW = PhaseEpoch(epoch=0, phase="backbone", trace_epoch=-1)
# Nothing drawn by chance: no dropout, no jitter, and the single hardest negative.
CALM = DreamPRVRConfig(
    visual_width=20, query_width=24, width=32, frames=40, clips=32, registers=3, diffusion_steps=4,
    dropout=0.0, input_dropout=0.0, perturbation=0.0, hard_pool=1, hard_negative_epoch=0,
    # Weights as large as the ranking terms', so that a wrong term cannot hide behind its small factor.
    weight_nce_clip=1.0, weight_nce_frame=1.0, weight_diversity=1.0, weight_similarity=1.0, weight_kl=1.0,
    weight_denoise=1.0, init_std=0.2,
)  # fmt: skip


@pytest.fixture(scope="module")
def naive() -> ModuleType:
    """Loaded by its path, as ``prvr bench`` does."""
    path = Path(__file__).parents[2] / "benchmarks" / "naive.py"
    spec = importlib.util.spec_from_file_location("naive", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["naive"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def backbone() -> DreamPRVR:
    torch.manual_seed(0)
    model = build("dreamprvr", CALM)
    assert isinstance(model, DreamPRVR)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms, too, must differ from their neutral start
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture
def batch() -> TrainBatch:
    torch.manual_seed(1)
    lengths, words = torch.tensor([33, 20, 9, 5, 1]), torch.tensor([7, 3, 5, 5, 2, 6, 1, 4])
    frame_mask, word_mask = torch.arange(33) < lengths[:, None], torch.arange(7) < words[:, None]
    frames = torch.randn(5, 33, 20) * frame_mask[..., None]
    return TrainBatch(
        VideoBatch(frames, frame_mask, torch.randn(5, 32, 20)),
        QueryBatch(torch.randn(8, 7, 24) * word_mask[..., None], word_mask),
        torch.tensor([0, 0, 1, 2, 2, 2, 3, 4]),
    )


def paired(naive: ModuleType, backbone: DreamPRVR) -> tuple[PlainStep, Any]:
    """Our step and the naive one from the same weights."""
    model = TraceModel(backbone, Trace(CALM.width), TraceStage())
    ours = PlainStep(model, backbone_optimiser(backbone, BackboneStage(learning_rate=1e-2)), None)
    model.enter(NOW)
    theirs = naive.NaiveStep(CALM, learning_rate=1e-2)
    theirs.load(backbone)
    return ours, theirs


def by_official_name(backbone: DreamPRVR, values: dict[str, Tensor]) -> dict[str, Tensor]:
    keys = backbone.official_keys()
    return {name: part for ours, value in values.items() for name, part in unstack(keys[ours], value).items()}


def test_loss_terms_and_gradients_are_equal(naive: ModuleType, backbone: DreamPRVR, batch: TrainBatch) -> None:
    ours, theirs = paired(naive, backbone)
    terms, naive_terms = ours.model(batch, NOW, None), theirs.terms(batch)
    assert naive_terms.keys() == terms.keys()
    for name, value in terms.items():
        assert value.item() != 0, name
        torch.testing.assert_close(naive_terms[name], value, atol=1e-4, rtol=1e-4, msg=name)
    torch.stack(list(terms.values())).sum().backward()
    sum(naive_terms.values()).backward()
    gradients = by_official_name(backbone, {n: p.grad for n, p in backbone.named_parameters() if p.grad is not None})
    naive_gradients = {n: p.grad for n, p in theirs.model.named_parameters() if p.grad is not None}
    assert naive_gradients.keys() == gradients.keys()
    overall = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():  # some are zero in theory (a shift before a softmax) and hold only noise
        close = 1e-3 * float(gradient.abs().max()) + 1e-6 * overall
        torch.testing.assert_close(naive_gradients[name], gradient, atol=close, rtol=1e-3, msg=name)


def test_updates_from_the_same_gradients_are_equal(naive: ModuleType, backbone: DreamPRVR) -> None:
    """Given gradients, because Adam turns the rounding noise of a gradient that is zero in theory into a full step."""
    ours, theirs = paired(naive, backbone)
    named = dict(theirs.model.named_parameters())
    for scale in (1e-3, 1.0, 0.1):  # some tensors are clipped, some are not
        for parameter in backbone.parameters():
            parameter.grad = scale * torch.randn_like(parameter) if parameter.requires_grad else None
        gradients = {n: p.grad for n, p in backbone.named_parameters() if p.grad is not None}
        for name, gradient in by_official_name(backbone, gradients).items():
            named[name].grad = gradient
        ours.optimiser.step()
        theirs.optimiser.step()
    for name, value in to_official(backbone).items():
        torch.testing.assert_close(named[name].detach(), value, atol=1e-5, rtol=1e-4, msg=name)


def test_random_negatives_and_dropout_run(naive: ModuleType, batch: TrainBatch) -> None:
    config = dataclasses.replace(CALM, dropout=0.2, input_dropout=0.2, hard_negative_epoch=20, perturbation=0.1)
    step = naive.NaiveStep(config)
    for epoch in (0, 20):
        before = [parameter.clone() for parameter in step.model.parameters() if parameter.requires_grad]
        assert all(isfinite(value) for value in step.step(batch, epoch).values())
        after = [parameter for parameter in step.model.parameters() if parameter.requires_grad]
        assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_scores_ranks_and_recalls_are_equal(naive: ModuleType, backbone: DreamPRVR, batch: TrainBatch) -> None:
    _, theirs = paired(naive, backbone)
    trace = Trace(CALM.width)
    with torch.no_grad():
        for weight in trace.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    halves = [VideoBatch(**{n: t[rows] for n, t in batch.videos.tensors().items()}) for rows in (slice(3), slice(3, 5))]
    gallery = Gallery.build(backbone, trace, halves)
    videos = naive.encode_gallery(theirs.model, halves)
    queries = naive.encode_queries(theirs.model, [batch.queries])
    with torch.no_grad():
        encoded = backbone.encode_queries(batch.queries.tokens, batch.queries.mask)
    torch.testing.assert_close(queries, encoded, atol=1e-4, rtol=1e-4)
    parts = score_parts(encoded, gallery)
    base = naive.base_scores(queries, videos, CALM.clip_weight, CALM.frame_weight)
    evidence = naive.trace_scores(queries, videos, trace.projections, trace.config)
    torch.testing.assert_close(base, parts.base, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(evidence, parts.trace, atol=1e-4, rtol=1e-4)
    final = base + trace.config.fusion_weight * evidence
    torch.testing.assert_close(final, score(encoded, gallery), atol=1e-4, rtol=1e-4)


def test_ranks_keep_gallery_order_on_ties(naive: ModuleType) -> None:
    scores = torch.randint(0, 9, (60, 30), generator=torch.Generator().manual_seed(0)).float()
    positives = torch.arange(60) % 30
    found, table = naive.ranks_and_recalls(scores, positives)
    expected = ranks(scores, positives)
    assert found == expected.tolist()
    assert table == pytest.approx({k: v for k, v in recalls(expected).as_dict().items() if k != "count"})
