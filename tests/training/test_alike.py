"""With ``alike`` no loss compares a query with another video that a query with the same meaning describes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.data import Caption, Dataset
from prvr.training import ConfigError, TraceModel, config_from_dict, config_to_dict, load_preset, phase_at
from prvr.training.step import pad_batch

RANKING = ("nce_clip", "nce_frame", "triplet_clip", "triplet_frame", "trace_nce", "trace_triplet")


def terms(preset: Path, world: Path, alike: float, same: bool = False) -> dict[str, torch.Tensor]:
    """Loss terms of one batch; ``same``: all its queries have the same words."""
    config = load_preset(str(preset))
    calm = replace(config.model, dropout=0.0, input_dropout=0.0, perturbation=0.0, hard_pool=1)
    stage = replace(config.trace_stage, epochs=6, frozen_epochs=1, fused_base=True)
    torch.manual_seed(0)
    model = TraceModel.from_config(replace(config, model=calm, trace_stage=stage, alike=min(alike, 1.0)))
    model.alike = alike
    now = phase_at(7, 2, stage)
    model.enter(now)
    data = Dataset.load(world, "synth", "train", frames=24)
    model.usual_meaning = data.usual_meaning
    batch = data.train_batch(range(7))
    if same:
        first = batch.queries.tokens[:1].expand_as(batch.queries.tokens)
        batch = replace(batch, queries=replace(batch.queries, tokens=first, mask=torch.ones_like(batch.queries.mask)))
    found = model(pad_batch(batch, calm.frames, calm.words), now, torch.Generator().manual_seed(0))
    return {name: value.detach() for name, value in found.items()}


def test_words_that_all_videos_share_have_no_wrong_answer(preset: Path, world: Path) -> None:
    ignored, wrong = terms(preset, world, 0.99, same=True), terms(preset, world, 0.0, same=True)
    assert all(float(ignored[name]) == pytest.approx(0, abs=1e-6) for name in RANKING if "nce_" not in name)
    assert float(wrong["triplet_clip"]) > 0.01
    assert float(ignored["trace_nce"]) == pytest.approx(0, abs=1e-6) != float(wrong["trace_nce"])
    assert all(float(ignored[name]) < float(wrong[name]) for name in RANKING)


def test_different_sentences_are_compared_as_ever(preset: Path, world: Path) -> None:
    ignored, wrong = (terms(preset, world, alike) for alike in (1.5, 0.0))
    assert all(torch.allclose(ignored[name], wrong[name], atol=1e-6) for name in wrong)


def test_a_split_knows_which_videos_a_query_describes(world: Path) -> None:
    data = Dataset.load(world, "synth", "train", frames=24)
    meanings = torch.cat([batch.meanings(data.usual_meaning) for batch in data.query_batches()])
    texts = [" ".join(caption.sentence.casefold().strip(" .").split()) for caption in data.captions]
    same = torch.tensor([[one == other for other in texts] for one in texts])
    for alike, pairs in ((0.0, same), (0.6, same | (meanings @ meanings.T >= 0.6))):
        expected = torch.zeros(len(texts), len(data), dtype=torch.bool)
        for query, other in pairs.nonzero().tolist():
            expected[query, data.query_video[other]] = True
        assert torch.equal(data.described_by(alike), expected)
    assert data.described_by(0.6).sum() > data.described_by().sum()


def test_sentences_are_compared_in_any_script() -> None:
    boy, girl = (Caption("v#0", "v", text).words for text in ("लड़का खेलता है", "लड़की खेलती है।"))
    assert boy != girl == "लड़की खेलती है"
    assert Caption("v#0", "v", "?!").words == ""


@pytest.mark.parametrize("method", ["clip4clip", "mssl", "holmes"])
def test_a_method_that_cannot_says_so(method: str) -> None:
    config = replace(load_preset("charades", method), alike=0.8)
    with pytest.raises(ConfigError, match="--alike"):
        TraceModel.from_config(replace(config, trace_stage=replace(config.trace_stage, epochs=0)))


def test_a_run_of_an_earlier_version_is_read() -> None:
    values = {key: value for key, value in config_to_dict(load_preset("charades")).items() if key != "alike"}
    for word, alike in (("wrong", 0.0), ("ignored", 1.0)):
        assert config_from_dict({**values, "same_sentence": word}, "run.json").alike == alike
