"""RAL gives the authors' numbers: words against frames, Gaussian proxies, every loss term, gradients, steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import build, from_official, total_loss
from prvr.backbones.blocks.interaction import softmax_weights
from prvr.backbones.blocks.packed_words import unpack_query
from prvr.backbones.ral import RAL
from prvr.losses import distribution_alignment, proxy_matching
from prvr.tokens import TrainBatch
from prvr.training import load_preset

TERMS = {"diversity": "query_diverse", "proxy_matching": "pm", "distribution": "da"}  # ours -> the fixture's


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("ral")


@pytest.fixture
def model(case: Any) -> RAL:
    backbone = from_official("ral", case.weights, case.config)
    assert isinstance(backbone, RAL)
    return backbone


@pytest.fixture
def _authors_noise(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples are drawn with the fixture's noise, text first."""
    sides: Iterator[str] = iter(("text", "video") * 10)
    drawn = torch.randn

    def noise(*size: Any, **where: Any) -> Tensor:
        return case[f"prob.eps_{next(sides)}"] if isinstance(size[0], tuple) else drawn(*size, **where)

    monkeypatch.setattr("prvr.backbones.ral.torch.randn", noise)


def test_tokens_and_scores_are_the_authors(model: RAL, case: Any, batch: TrainBatch) -> None:
    with torch.no_grad():
        queries = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        videos, query = model.encode_video_batch(batch.videos), unpack_query(queries)
        encoded = replace(model.encode_batch(batch), queries=queries)
        cosines, dots = model.branch_cosines(encoded), model.branch_dots(encoded)
        unit = torch.nn.functional.normalize(query.words, dim=-1)
        confidence = softmax_weights(model.word_weight(unit), query.mask)
    for value, name in (
        (query.vector, "out.query"),
        (query.words, "out.words"),
        (videos.clips, "out.clip"),
        (videos.frames, "out.frame"),
        (confidence, "out.word_weight"),
        (cosines["clip"], "out.clip_scores"),
        (cosines["frame"], "out.frame_scores"),
        (dots["clip"], "out.clip_scores_raw"),
        (dots["frame"], "out.frame_scores_raw"),
        (model.base_score(queries, videos), "out.fused"),
    ):
        torch.testing.assert_close(value, case[name], atol=5e-5, rtol=0)


def test_the_gaussians_of_frames_and_words_are_the_authors(model: RAL, case: Any, batch: TrainBatch) -> None:
    found = model.encode_batch(batch).per_video
    for side in ("text", "video"):
        torch.testing.assert_close(found[f"{side}_mean"], case[f"prob.{side}_mean"], atol=1e-5, rtol=0)
        torch.testing.assert_close(found[f"{side}_log_spread"], case[f"prob.{side}_logsigma"], atol=1e-5, rtol=0)
    samples = [case[f"prob.{side}_samples"] for side in ("video", "text")]
    torch.testing.assert_close(proxy_matching(samples[0], samples[1]), case["loss.pm"], atol=1e-5, rtol=0)
    spreads = [case[f"prob.{side}_logsigma"] for side in ("video", "text")]
    aligned = distribution_alignment(samples[0].mean(1), spreads[0], samples[1].mean(1), spreads[1])
    torch.testing.assert_close(aligned, case["loss.da"], atol=1e-4, rtol=0)


@pytest.mark.usefixtures("_authors_noise")
def test_loss_terms_and_gradients_are_the_authors(model: RAL, batch: TrainBatch, case: Any, authors: Any) -> None:
    terms = model.objective(model.encode_batch(batch), epoch=0)
    assert terms.keys() == model.loss_weights.keys()
    for ours, value in terms.items():
        torch.testing.assert_close(value, case[f"loss.{TERMS.get(ours, ours)}"], atol=1e-4, rtol=1e-6)
    total = total_loss(terms, model.loss_weights)
    torch.testing.assert_close(total, case["loss.total"], atol=1e-5, rtol=0)
    authors("ral").check_gradients(model, total, "grad.norm")


@pytest.mark.usefixtures("_authors_noise")
@pytest.mark.parametrize(("term", "name"), [("proxy_matching", "pm"), ("distribution", "da")])
def test_proxies_teach_the_frame_branch_alone(
    term: str, name: str, model: RAL, batch: TrainBatch, authors: Any
) -> None:
    terms = model.objective(model.encode_batch(batch), epoch=0)
    authors("ral").check_gradients(model, terms[term], f"grad.{name}_norm")


@pytest.mark.usefixtures("_authors_noise")
def test_steps_of_the_authors_optimiser_give_their_losses(model: RAL, case: Any, authors: Any) -> None:
    helper = authors("ral")
    assert helper.decayed(model) == helper.decay_flags
    losses = helper.losses_of_steps(model)
    torch.testing.assert_close(losses.double(), case["train.losses"][: len(losses)].double(), atol=1e-4, rtol=0)


def test_words_beyond_the_longest_query_do_not_matter(model: RAL, batch: TrainBatch) -> None:
    with torch.no_grad():
        videos = model.encode_video_batch(batch.videos)
        query = model.encode_queries(batch.queries.tokens[1:2], batch.queries.mask[1:2])
        longer = torch.nn.functional.pad(query, (0, 0, 0, 5))
        torch.testing.assert_close(model.base_score(longer, videos), model.base_score(query, videos))
    assert not model.separable


def loss_of(model: RAL, batch: TrainBatch) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return total_loss(model.objective(model.encode_batch(batch), epoch=0, generator=generator), model.loss_weights)


def test_padding_queries_change_no_loss_and_no_step_waits(
    model: RAL, authors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = authors("ral")
    clean, dirty = loss_of(model, helper.batch()), loss_of(model, helper.batch(padding=3))
    torch.testing.assert_close(dirty, clean, atol=5e-5, rtol=0)
    # GMMFormer v2's matching waits on a CPU; on a GPU a kernel does it.
    monkeypatch.setattr("prvr.backbones.gmmformer_v2.matching_loss", lambda queries, labels, clips: clips.sum() * 0)
    helper.check_no_waiting(model, epoch=0)


def test_real_words_and_frames_alone_can_be_read(case: Any, batch: TrainBatch) -> None:
    """In the authors' code most attention falls on empty rows; ``support = words`` leaves padding out."""
    assert float(case["prob.text_attention_mass"][:, 2].min()) > 0.5
    model = from_official("ral", case.weights, case.config)
    assert isinstance(model, RAL)
    model.config = replace(model.config, support="words")
    with torch.no_grad():
        found = model.encode_batch(batch).per_video
        tokens, mask = batch.queries.tokens, batch.queries.mask.bool()
        words, heads = model.query_words(tokens, mask), model.text_heads
        rows = words[batch.labels == 0][mask[batch.labels == 0]]
        expected = heads.describe(
            rows.mean(0), heads.mean_attention(rows[None])[0], heads.variance_attention(rows[None])[0]
        )
    torch.testing.assert_close(found["text_mean"][0], expected[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(found["text_log_spread"][0], expected[1], atol=1e-5, rtol=0)


def test_presets_hold_the_released_settings() -> None:
    # spec: RAL's released hyper-parameters
    expected = {
        "activitynet": (0.6, 0.4, 0.31, 0.02, 0.11, 100, 10, 2.5e-4),
        "tvr": (0.5, 0.5, 0.2, 0.05, 0.09, 150, 15, 3e-4),
    }
    counts = {"activitynet": 34_145_953, "tvr": 35_529_377}
    for dataset, numbers in expected.items():
        config = load_preset(dataset, "ral")
        model: Any = config.model
        stage = config.backbone_stage
        found = (model.clip_weight, model.frame_weight, model.dropout, model.weight_nce_clip, model.weight_matching)
        assert (*found, stage.epochs, stage.patience, stage.learning_rate) == numbers
        assert (model.weight_proxies, model.weight_distribution, model.proxies) == (4e-3, 2.5e-4, 6)
        assert sum(p.numel() for p in build("ral", model).parameters()) == counts[dataset]
    assert load_preset("charades", "ral").model == RAL.config_type()
