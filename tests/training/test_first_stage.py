"""A re-ranker learns from its first stage's lists, and the same ones when it is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from prvr.backbones import build
from prvr.backbones.conquer import Conquer
from prvr.data import Dataset
from prvr.training import Run, RunError, TraceModel, config_from_dict, config_to_dict, load_preset
from prvr.training.first_stage import Lists, draw_from_lists, listed_negatives, ranked_lists

SHAPE: dict[str, Any] = {"visual_width": 24, "query_width": 20, "width": 16, "heads": 2, "frames": 24}


@pytest.fixture(scope="module")
def first(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An untrained XML is a first stage like any other."""
    values = config_to_dict(load_preset("synth", "xml"))
    values["model"] |= SHAPE
    config = config_from_dict(values, "xml")
    run = Run(tmp_path_factory.mktemp("first") / "run")
    run.create(config, world)
    run.save_weights("best", TraceModel.from_config(config).state_dict(), epoch=0)
    return run


@pytest.fixture
def train_set(world: Path) -> Dataset:
    return Dataset.load(world, "synth", "train", frames=24)


def conquer(first: Run | None, **more: Any) -> Conquer:
    model = build("conquer", **SHAPE, inner_width=16, first_stage=str(first.path) if first else None, **more)
    assert isinstance(model, Conquer)
    return model


def test_a_list_ends_a_little_below_the_right_video_and_never_holds_it() -> None:
    scores = torch.randn(50, 30)
    truth = torch.randint(30, (50,))
    lists = ranked_lists(scores, truth, reach=0.1, least=2)
    rank = (scores > scores.gather(1, truth[:, None])).sum(1)
    assert torch.equal(lists.length, (rank + 3).clamp(max=29))
    assert not bool((lists.videos == truth[:, None]).any())
    ordered = scores.gather(1, lists.videos)
    assert bool((ordered[:, 1:] <= ordered[:, :-1]).all())


def test_drawing_repeats_nothing_stays_in_the_list_and_reaches_all_of_it() -> None:
    lists = Lists(torch.arange(10, 20).expand(400, -1), torch.tensor([4, 10]).repeat(200))
    drawn = draw_from_lists(lists, 3, torch.Generator().manual_seed(0)).videos
    assert bool((drawn.sort(1).values.diff(dim=1) > 0).all())
    assert set(drawn[::2].flatten().tolist()) == {10, 11, 12, 13}
    assert set(drawn[1::2].flatten().tolist()) == set(range(10, 20))


def test_negatives_of_a_batch_come_from_the_first_stages_list(first: Run, train_set: Dataset) -> None:
    model = conquer(first, negatives=2, negative_reach=0.05)
    found = listed_negatives(model, train_set, seed=3)
    assert found is not None
    batch = train_set.train_batch([4, 0, 9], found.drawing(7))
    assert batch.negatives is not None
    assert batch.negatives.shape == (len(batch.queries), 2)
    assert set(batch.videos.ids[:3]) == {train_set.video_ids[row] for row in (4, 0, 9)}
    assert len(set(batch.videos.ids)) == len(batch.videos)
    assert not bool((batch.negatives == batch.labels[:, None]).any())
    for query, rows in zip(batch.queries.ids, batch.negatives.tolist(), strict=True):
        position = train_set.query_ids.index(query)
        listed = found.kept.videos[position, : found.kept.length[position]].tolist()
        assert {batch.videos.ids[row] for row in rows} <= {train_set.video_ids[row] for row in listed}
    again = train_set.train_batch([4, 0, 9], found.drawing(7)).negatives
    assert again is not None
    assert torch.equal(batch.negatives, again)


def test_the_model_scores_just_those_pairs(first: Run, train_set: Dataset) -> None:
    model = conquer(first, negatives=2).eval()
    found = listed_negatives(model, train_set, seed=3)
    assert found is not None
    batch = train_set.train_batch([4, 0, 9], found.drawing(7))
    assert batch.negatives is not None
    with torch.no_grad():
        encoded = model.encode_batch(batch)
        queries = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        every = model.base_score(queries, model.encode_video_batch(batch.videos))
    rows = torch.cat([batch.labels[:, None], batch.negatives], 1)
    torch.testing.assert_close(encoded.per_query["candidates"], every.gather(1, rows), atol=1e-5, rtol=0)


def test_without_a_first_stage_or_by_choice_negatives_come_from_the_batch(first: Run, train_set: Dataset) -> None:
    assert listed_negatives(conquer(None), train_set, seed=0) is None
    assert listed_negatives(conquer(first, negatives_from="batch"), train_set, seed=0) is None
    with pytest.raises(RunError, match="is not a run"):
        listed_negatives(conquer(Run("nowhere")), train_set, seed=0)
