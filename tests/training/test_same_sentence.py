"""With ``same_sentence = "ignored"`` no loss compares a query with another video of the same sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.data import Caption, Dataset
from prvr.training import ConfigError, TraceModel, load_preset, phase_at
from prvr.training.step import pad_batch

RANKING = ("nce_clip", "nce_frame", "triplet_clip", "triplet_frame", "trace_nce", "trace_triplet")


def terms(preset: Path, world: Path, numbers: torch.Tensor | None, how: str) -> dict[str, torch.Tensor]:
    config = load_preset(str(preset))
    calm = replace(config.model, dropout=0.0, input_dropout=0.0, perturbation=0.0, hard_pool=1)
    stage = replace(config.trace_stage, epochs=6, frozen_epochs=1, fused_base=True)
    torch.manual_seed(0)
    model = TraceModel.from_config(replace(config, model=calm, trace_stage=stage, same_sentence=how))  # type: ignore[arg-type]
    now = phase_at(7, 2, stage)
    model.enter(now)
    batch = Dataset.load(world, "synth", "train", frames=24).train_batch(range(7))
    if numbers is not None:
        batch = replace(batch, queries=replace(batch.queries, sentences=numbers[: len(batch.queries)]))
    found = model(pad_batch(batch, calm.frames, calm.words), now, torch.Generator().manual_seed(0))
    return {name: value.detach() for name, value in found.items()}


def test_a_sentence_that_all_videos_share_has_no_wrong_answer(preset: Path, world: Path) -> None:
    ignored = terms(preset, world, torch.zeros(99, dtype=torch.long), "ignored")
    wrong = terms(preset, world, torch.zeros(99, dtype=torch.long), "wrong")
    assert all(float(ignored[name]) == pytest.approx(0, abs=1e-6) for name in RANKING if "nce_" not in name)
    assert float(wrong["triplet_clip"]) > 0.01
    assert float(ignored["trace_nce"]) == pytest.approx(0, abs=1e-6) != float(wrong["trace_nce"])
    assert all(float(ignored[name]) < float(wrong[name]) for name in RANKING)


def test_different_sentences_are_compared_as_ever(preset: Path, world: Path) -> None:
    ignored, wrong = (terms(preset, world, torch.arange(99), how) for how in ("ignored", "wrong"))
    assert all(torch.allclose(ignored[name], wrong[name], atol=1e-6) for name in wrong)


def test_the_data_number_their_sentences(world: Path) -> None:
    data = Dataset.load(world, "synth", "train", frames=24)
    batch = data.train_batch(range(7))
    assert batch.queries.sentences is not None
    texts = {caption.id: " ".join(caption.sentence.casefold().strip(" .").split()) for caption in data.captions}
    numbers = dict(zip(batch.queries.ids, batch.queries.sentences.tolist(), strict=True))
    assert all((texts[a] == texts[b]) == (numbers[a] == numbers[b]) for a in numbers for b in numbers)


def test_sentences_are_compared_in_any_script() -> None:
    boy, girl = (Caption("v#0", "v", text).words for text in ("लड़का खेलता है", "लड़की खेलती है।"))
    assert boy != girl == "लड़की खेलती है"
    assert Caption("v#0", "v", "?!").words == ""


@pytest.mark.parametrize("method", ["clip4clip", "mssl", "holmes"])
def test_a_method_that_cannot_says_so(method: str) -> None:
    config = replace(load_preset("charades", method), same_sentence="ignored")
    with pytest.raises(ConfigError, match="same-sentence"):
        TraceModel.from_config(replace(config, trace_stage=replace(config.trace_stage, epochs=0)))
