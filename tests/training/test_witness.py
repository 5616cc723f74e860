"""A witness learns from a base's near misses what its words mean, and only re-orders each query's best videos."""

from __future__ import annotations

import json
import shutil
import signal
import weakref
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.errors import Interrupted
from prvr.evaluation import WitnessExperiment, evaluate_run, open_subject, pair_account
from prvr.scoring import ranks, recalls
from prvr.terminal import Console
from prvr.trace import Witness, WitnessConfig
from prvr.training import (
    ConfigError,
    FittedWitness,
    Run,
    TraceModel,
    TrainConfig,
    Trainer,
    WitnessMaterial,
    WitnessStage,
    config_from_dict,
    config_to_dict,
    fit_hubs,
    fit_query_weights,
    fit_run_witness,
    fit_weight,
    join_processes,
    load_preset,
    load_run_witness,
    load_split,
    preset_names,
    rescored,
    save_run_witness,
    split_scores,
    train_witness,
    witness_material,
    witness_scores,
)
from prvr.training import witness_run as module

CONCEPTS, WIDTH = 12, 16


def made_up(videos: int, seed: int) -> WitnessMaterial:
    """Videos that show three concepts; queries that name two of them; a base that has seen neither."""
    generator = torch.Generator().manual_seed(seed)
    meaning = torch.randn(CONCEPTS, WIDTH, generator=torch.Generator().manual_seed(99))
    shown = torch.stack([torch.randperm(CONCEPTS, generator=generator)[:3] for _ in range(videos)])  # (V, 3)
    named = shown[:, :2]
    words = meaning.flip(-1)[named] + 0.1 * torch.randn(videos, 2, WIDTH, generator=generator)
    frames = meaning[shown] + 0.1 * torch.randn(videos, 3, WIDTH, generator=generator)
    base = torch.rand(videos, videos, generator=generator) + 0.3 * torch.eye(videos)
    truth = torch.arange(videos)
    return WitnessMaterial(
        words=words,
        word_mask=torch.ones(videos, 2, dtype=torch.bool),
        pooled=words.mean(1),
        frames=frames,
        frame_mask=torch.ones(videos, 3, dtype=torch.bool),
        base=base,
        candidates=base.topk(min(20, videos), dim=1).indices,
        truth=truth,
        positive=torch.eye(videos, dtype=torch.bool),
        hubs=torch.zeros(videos),
    )


READER = WitnessConfig(width=16, hidden=16, neighbours=0, dropout=0.0, time="any")
QUICK = WitnessStage(steps=3, queries=4, negatives=3, witness=WitnessConfig(width=8, hidden=8))
STAGE = WitnessStage(witness=READER, steps=200, queries=32, learning_rate=1e-2)


def first_answers(material: WitnessMaterial, scores: Tensor, weight: float) -> float:
    return recalls(ranks(rescored(material, scores, weight), material.truth)).r1


def test_a_witness_learns_words_from_near_misses() -> None:
    train, val, test = (made_up(count, seed) for seed, count in enumerate((200, 100, 100)))
    witness = train_witness(train, STAGE, seed=0)
    weight = fit_weight(val, witness_scores(witness, val))
    scores, moved = witness_scores(witness, test), torch.arange(100).roll(1)
    shuffled = witness_scores(witness, test.with_words(test.words[moved], test.word_mask[moved]))
    base = recalls(ranks(test.base, test.truth)).r1
    found = first_answers(test, scores, weight)
    assert found > base + 8
    assert first_answers(test, shuffled, weight) < found - 8
    again = train_witness(train, STAGE, seed=0)
    assert torch.equal(witness_scores(again, test), scores)


def test_only_the_candidates_change_places() -> None:
    material = made_up(60, 0)
    material = WitnessMaterial(**vars(material) | {"candidates": material.base.topk(5, dim=1).indices})
    added = torch.randn(60, 5)
    final = rescored(material, added, 2.0)
    before, after = (scores.argsort(dim=1, descending=True) for scores in (material.base, final))
    assert torch.equal(before[:, 5:], after[:, 5:])
    assert torch.equal(before[:, :5].sort(1).values, after[:, :5].sort(1).values)
    best = (material.base.gather(1, material.candidates) + 2.0 * added).argmax(1, keepdim=True)
    assert torch.equal(after[:, :1], material.candidates.gather(1, best))
    assert torch.equal(rescored(material, added, 0.0).argsort(1, descending=True), before)


def test_weights_are_found_on_a_split() -> None:
    material = made_up(80, 3)
    noise = torch.randn(80, 20)
    assert fit_weight(material, noise) < 0.1
    told = material.positive.gather(1, material.candidates).float() + 0.3 * noise
    assert fit_weight(material, told) > 0.3
    hub = torch.zeros(80)
    hub[:8] = 0.6  # eight videos that every query likes
    loud = WitnessMaterial(**vars(material) | {"base": material.base + hub, "hubs": hub})
    loud = WitnessMaterial(**vars(loud) | {"candidates": loud.base.topk(20, dim=1).indices})
    assert fit_hubs(loud) == pytest.approx(1.0, abs=0.4)
    assert torch.allclose(loud.without_hubs(1.0).base, material.base)


def test_a_split_that_tells_nothing_leaves_the_base_as_it_is() -> None:
    """One video with one sentence; and queries none of whose candidates is correct."""
    one, blind = made_up(1, 0), made_up(20, 0)
    blind = WitnessMaterial(**vars(blind) | {"positive": torch.zeros(20, 20, dtype=torch.bool)})
    for material in (one, blind):
        added = torch.randn(material.candidates.shape)
        assert fit_weight(material, added) == 0
        assert fit_hubs(material) == 0
        assert fit_query_weights(material, added)(material).eq(0).all()


def test_each_query_gets_its_own_weight() -> None:
    """The second score tells the truth about queries of two words only."""
    material, noise = made_up(200, 3), torch.randn(200, 20, generator=torch.Generator().manual_seed(0))
    long = torch.arange(200) % 2 == 0
    mask = torch.stack([torch.ones(200, dtype=torch.bool), long], 1)
    material = WitnessMaterial(**vars(material) | {"word_mask": mask})
    told = material.positive.gather(1, material.candidates).float() + 0.5 * noise
    weights = fit_query_weights(material, torch.where(long[:, None], told, noise))(material).squeeze(1)
    assert weights[long].mean() > 0.1
    assert weights[~long].mean() < 0.3 * weights[long].mean()


def test_material_comes_from_a_base_and_knows_equal_sentences(preset: Path, world: Path) -> None:
    config = load_preset(str(preset))
    model = TraceModel.from_config(config).eval()
    dataset = load_split(config, world, "train")
    width = model.backbone.width
    found = witness_material(model, dataset, candidates=10, inputs="both")
    assert found.words.shape[2] == width + dataset.query_width
    assert found.frames.shape[2] == width + dataset.visual_width
    assert torch.equal(found.candidates[:, 0], found.base.argmax(1))
    texts = [caption.sentence for caption in dataset.captions]
    alike = found.positive
    for row, text in enumerate(texts):
        expected = {int(dataset.query_video[other]) for other, same in enumerate(texts) if same == text}
        assert expected == set(alike[row].nonzero().flatten().tolist())
    assert found.words.dtype == found.frames.dtype == torch.float32  # on every machine, as in a library
    encoded = witness_material(model, dataset, candidates=10, inputs="encoded")
    assert torch.allclose(encoded.words, found.words[..., :width])
    assert torch.allclose(encoded.pooled, found.pooled[:, :width])


def test_an_experiment_ranks_every_scoring_and_control(preset: Path, world: Path) -> None:
    config = load_preset(str(preset))
    splits = {split: load_split(config, world, split) for split in ("train", "val", "test")}
    torch.manual_seed(0)
    model = TraceModel.from_config(config).eval()
    stage = WitnessStage(witness=WitnessConfig(width=8, hidden=8), steps=3, queries=4, negatives=3, inputs="auto")
    found = WitnessExperiment(model, splits, stage, seed=0).run(["encoded", "fused-loss"])
    controls = ("pooled", "shuffled", "shuffled-own", "uniform", "uniform-own")
    endings = [f"{name}{hubs}" for name in ("words", *controls) for hubs in ("", "+hubs")]
    tried = {"query-weights+hubs", "candidates-100+hubs", "raw+hubs", "both+hubs", "encoded+hubs", "fused-loss+hubs"}
    assert {"base", "hubs", "other-hubs", *endings, *tried} == set(found.ranks) == set(found.any_ranks)
    assert torch.equal(found.ranks["words+hubs"], found.ranks[f"{found.inputs}+hubs"])
    assert found.validation["words+hubs"] == max(found.validation[f"{name}+hubs"] for name in ("raw", "both"))
    base = split_scores(model, splits["test"], use_trace=False).base
    assert torch.equal(found.ranks["base"], ranks(base, splits["test"].query_video))
    assert all((found.any_ranks[name] <= found.ranks[name]).all() for name in found.ranks)
    assert found.summary()["test"]["base"] == recalls(found.ranks["base"]).sum_r
    assert "lead of the base" in found.support
    assert found.support["reading"] != "lead of the base"


def test_trained_witnesses_are_kept_for_the_next_experiment(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_preset(str(preset))
    splits = {split: load_split(config, world, split) for split in ("train", "val", "test")}
    torch.manual_seed(0)
    model = TraceModel.from_config(config).eval()
    stage = WitnessStage(witness=WitnessConfig(width=8, hidden=8), steps=3, queries=4, negatives=3, inputs="auto")
    first = WitnessExperiment(model, splits, stage, seed=0, kept=tmp_path).run(["fused-loss"])
    assert len(list(tmp_path.iterdir())) == 4, "two kinds of inputs, the pooled query, the ablation"

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was trained again")

    monkeypatch.setattr("prvr.evaluation.witness_study.train_witness", refuse)
    again = WitnessExperiment(model, splits, stage, seed=0, kept=tmp_path).run(["fused-loss"])
    assert again.ranks.keys() == first.ranks.keys()
    assert all(torch.equal(again.ranks[name], first.ranks[name]) for name in first.ranks)
    without = WitnessExperiment(model, splits, stage, seed=0, kept=tmp_path, pooled=False).run()
    assert first.ranks.keys() - without.ranks.keys() == {"pooled", "pooled+hubs", "fused-loss+hubs"}
    with pytest.raises(AssertionError, match="trained again"):
        WitnessExperiment(model, splits, replace(stage, steps=4), seed=0, kept=tmp_path).run()


def test_a_second_base_is_read_as_a_witness_is(preset: Path, world: Path) -> None:
    config = load_preset(str(preset))
    splits = {split: load_split(config, world, split) for split in ("train", "val", "test")}
    models = []
    for seed in (0, 1, 2):
        torch.manual_seed(seed)
        models.append(TraceModel.from_config(config).eval())
    found = WitnessExperiment(models[0], splits, WitnessStage(), seed=0).beside(models[1:])
    scorings = {"base", "hubs", "better-base", "second-base", "second-base+hubs", "third-base", "third-base+hubs"}
    assert set(found.ranks) == set(found.any_ranks) == scorings
    own, other = (split_scores(model, splits["test"], use_trace=False).base for model in models[:2])
    weight = found.weights["second-base"]
    best = own.topk(min(50, own.shape[1]), dim=1).indices
    both = own - 100.0
    both = both.scatter(1, best, (own + weight * other).gather(1, best))
    assert torch.equal(found.ranks["second-base"], ranks(both, splits["test"].query_video))
    stage = WitnessStage(witness=WitnessConfig(width=8, hidden=8), steps=3, queries=4, negatives=3, inputs="auto")
    further = WitnessExperiment(models[0], splits, stage, seed=0).beside(models[1:2])
    usual = WitnessExperiment(models[0], splits, stage, seed=0).run()
    assert torch.equal(further.ranks["second-base+hubs"], found.ranks["second-base+hubs"])
    assert torch.equal(further.ranks["raw+hubs"], usual.ranks["raw+hubs"]), "the same witness as without a second base"
    assert {"second-base+words+hubs", "second-base+pooled+hubs"} <= further.ranks.keys()
    itself = WitnessExperiment(models[0], splits, WitnessStage(), seed=0).beside(models[:1])
    assert torch.equal(itself.ranks["second-base"], itself.ranks["base"]), "a copy of the base adds nothing"
    sums = [
        recalls(ranks(split_scores(m, splits["val"], use_trace=False).base, splits["val"].query_video)) for m in models
    ]
    better = own if sums[0].sum_r >= sums[1].sum_r else other
    assert torch.equal(found.ranks["better-base"], ranks(better, splits["test"].query_video))


def test_a_run_keeps_its_witness_and_ranks_with_it(preset: Path, world: Path, tmp_path: Path) -> None:
    config = replace(load_preset(str(preset)), witness_stage=QUICK)
    run = Run(tmp_path / "run")
    run.create(config, world)
    with join_processes("cpu") as group:
        Trainer(config, world, run, group, None).train()
    kept = load_run_witness(run)
    assert kept is not None
    outcome = evaluate_run(run, data=world)
    first, again = outcome.record.ranks, evaluate_run(run, data=world).record.ranks
    assert torch.equal(first["witness"], again["witness"])
    dataset = load_split(config, world, "test")
    scores = kept.scores(run.load_model()[0], dataset)
    assert torch.equal(first["witness"], ranks(scores.final, dataset.query_video))
    assert torch.equal(first["hubs"], ranks(scores.hubs, dataset.query_video))
    assert {"witness_any", "hubs_any"} <= first.keys()
    hubs, words, both = (change.delta_sum_r for change in outcome.witness_changes.values())
    assert hubs + words == pytest.approx(both)
    assert both == pytest.approx(recalls(first["witness"]).sum_r - recalls(first["base"]).sum_r)
    assert not outcome.witness_note
    assert "fitted on this split" in evaluate_run(run, data=world, split="val").witness_note
    assert "belongs to the weights 'average'" in evaluate_run(run, data=world, weights="last").witness_note
    account = pair_account(open_subject(run, data=world), 0, 1)
    assert len(account.words) == len(account.explained) == int(dataset.tables.word_count[0])
    assert {len(curve) for curve in account.words.values()} == {int(dataset.tables.frame_count[1])}
    assert account.words.keys() >= set(account.sentence.split()[:1])
    shutil.rmtree(run.path / "weights" / "witness")
    assert "not trained yet: prvr train --resume" in evaluate_run(run, data=world).witness_note


def test_ctrl_c_stops_a_witness_and_a_second_start_trains_it_anew(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(load_preset(str(preset)), witness_stage=QUICK)
    run = Run(tmp_path / "run")
    run.create(config, world)

    def start() -> None:
        with join_processes("cpu") as group:
            Trainer(config, world, run, group, Console(width=200)).train()

    def ctrl_c(*args: Any, **more: Any) -> Witness:
        signal.raise_signal(signal.SIGINT)
        return train_witness(*args, **more)

    for _ in range(2):  # in the same start as the base, and in one of its own
        with monkeypatch.context() as patches:
            patches.setattr(module, "train_witness", ctrl_c)
            with pytest.raises(Interrupted):
                start()
        assert "stopped; `prvr train --resume" in (said := capsys.readouterr().out)
        assert "trains the witness anew" in said
        assert run.has_weights("average")
        assert not run.has_weights("witness")
    start()
    assert run.has_weights("witness")
    assert "chosen on validation: hub offset μ = " in capsys.readouterr().out


@pytest.fixture(scope="module")
def trained_base(preset: Path, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run without a witness."""
    run = Run(tmp_path_factory.mktemp("base") / "run")
    run.create(load_preset(str(preset)), world)
    with join_processes("cpu") as group:
        Trainer(run.config, world, run, group, None).train()
    return run


def with_settings(base: Run, folder: Path, **settings: Any) -> Run:
    """A copy of a run whose configuration says otherwise."""
    shutil.copytree(base.path, folder)
    record = json.loads((folder / "run.json").read_text())
    record["config"] |= settings
    (folder / "run.json").write_text(json.dumps(record))
    return Run(folder)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_witness_learns_in_the_precision_of_its_run(
    precision: str,
    dtype: torch.dtype,
    trained_base: Run,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned_from, judged_on = [], []

    def train(material: WitnessMaterial, *args: Any, **more: Any) -> Witness:
        learned_from.append(material.frames.dtype)
        return train_witness(material, *args, **more)

    def scores(witness: Witness, material: WitnessMaterial) -> Tensor:
        judged_on.append(material.frames.dtype)
        return witness_scores(witness, material)

    monkeypatch.setattr(module, "train_witness", train)
    monkeypatch.setattr(module, "witness_scores", scores)
    run = with_settings(trained_base, tmp_path / "run", precision=precision, witness_stage=asdict(QUICK))
    splits = [load_split(run.config, world, split) for split in ("train", "val")]
    fit_run_witness(run, *splits, torch.device("cpu"))
    assert set(learned_from) == {dtype}
    assert set(judged_on) == {torch.float32}


def test_validation_chooses_what_a_witness_reads(trained_base: Run, world: Path, tmp_path: Path) -> None:
    stage = WitnessStage(
        steps=150, queries=16, negatives=5, learning_rate=1e-2, witness=WitnessConfig(width=16, hidden=8)
    )
    splits = [load_split(trained_base.config, world, split) for split in ("train", "val")]
    found = {}
    for inputs in ("raw", "both", "auto"):
        again = with_settings(trained_base, tmp_path / inputs, witness_stage=asdict(replace(stage, inputs=inputs)))
        fitted = fit_run_witness(again, *splits, torch.device("cpu"))
        scores = fitted.scores(again.load_model()[0], splits[1]).final
        found[inputs] = fitted.inputs, recalls(ranks(scores, splits[1].query_video)).sum_r
    assert found["raw"][1] != found["both"][1]
    assert found["auto"] == max((found["raw"], found["both"]), key=lambda pair: pair[1])


def one_vector_of_frames(inputs: str) -> TrainConfig:
    """GMMFormer at toy size, then a witness."""
    values = config_to_dict(load_preset("synth", "gmmformer"))
    values["model"] |= {"visual_width": 24, "query_width": 20, "width": 32, "frames": 24}
    values["backbone_stage"] |= {"epochs": 1}
    values["trace_stage"] |= {"epochs": 0}
    values["witness_stage"] |= asdict(replace(QUICK, inputs=inputs))
    return config_from_dict(values, "gmmformer")


def test_a_witness_reads_raw_frames_where_the_base_makes_one_vector_of_them(world: Path) -> None:
    config = one_vector_of_frames("auto")
    model = TraceModel.from_config(config).eval()
    splits = {split: load_split(config, world, split) for split in ("train", "val", "test")}
    assert config.witness_stage.inputs_for(model.backbone) == ("raw",)
    material = witness_material(model, splits["test"])
    assert material.frame_mask.shape == material.frames.shape[:2]
    assert torch.equal(material.frame_mask.sum(1).cpu(), splits["test"].tables.frame_count.clamp(max=24).long())
    assert WitnessExperiment(model, splits, config.witness_stage, seed=0).run().inputs == "raw"
    for inputs in ("both", "encoded"):
        with pytest.raises(ConfigError, match=r"one vector of all frames.*--witness-stage\.inputs raw"):
            TraceModel.from_config(one_vector_of_frames(inputs))


def test_only_one_material_is_in_memory_at_a_time(
    trained_base: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Tensor]] = []

    def material(*args: Any, **more: Any) -> WitnessMaterial:
        assert all(frames() is None for frames in made)
        found = witness_material(*args, **more)
        made.append(weakref.ref(found.frames))
        return found

    monkeypatch.setattr(module, "witness_material", material)
    stage = asdict(replace(QUICK, inputs="auto"))
    run = with_settings(trained_base, tmp_path / "run", witness_stage=stage)
    fit_run_witness(run, *(load_split(run.config, world, split) for split in ("train", "val")), torch.device("cpu"))
    assert len(made) == 4  # two splits, raw and both


def test_a_stored_witness_reads_as_many_videos_as_it_was_fitted_with(trained_base: Run, tmp_path: Path) -> None:
    run = with_settings(trained_base, tmp_path / "run")
    fitted = FittedWitness(Witness(4, 4, READER), 1.0, 0.5, torch.zeros(3, 4), "raw", candidates=7)
    save_run_witness(run, fitted)
    kept = load_run_witness(run)
    assert kept is not None
    assert kept.candidates == 7
    tensors, about = run.weights("witness")
    del about["candidates"]  # as the first ones were stored
    run.save_weights("witness", tensors, **about)
    older = load_run_witness(run)
    assert older is not None
    assert older.candidates == 50


def test_the_recipe_is_a_preset_of_its_backbone() -> None:
    for name in preset_names("witness"):
        recipe, plain = load_preset(name, "witness"), load_preset(name)
        assert recipe.witness_stage.steps > 0
        assert recipe.witness_stage.inputs == "auto"
        assert replace(recipe, witness_stage=plain.witness_stage, alike=0.0) == plain
