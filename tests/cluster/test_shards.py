"""Shards of a library, asked and put together without a cluster: the same answers as in one piece."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.cluster.partition import assign, part_of
from prvr.library import Library, SearchOptions
from prvr.library.store import arrays as shards_module
from prvr.worlds import RenderedWorld
from tests.cluster.alike import OPTIONS, SENTENCES, same_answers
from tests.cluster.standin import actors, searcher

EVERYTHING = SearchOptions(limit=100)


@pytest.mark.parametrize("shards", [1, 3, 40])
def test_shards_hold_every_video_once(whole: Library, shards: int) -> None:
    snapshot = whole.snapshot()
    parts = assign(snapshot, shards)
    assert len(parts) == shards
    assert sorted(np.concatenate(parts).tolist()) == sorted(snapshot.videos)
    held = [part_of(snapshot, videos) for videos in parts]
    assert sum(len(part.tracks["frames"]) for part in held if part.tracks) == len(snapshot.tracks["frames"])
    if shards == 3:
        tokens = [sum(count for _, _, count in part.tracks["frames"].places) for part in held]
        assert max(tokens) - min(tokens) <= sum(tokens) / 3


@pytest.mark.parametrize("shards", [1, 3, 40])
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_shards_answer_as_one_library(whole: Library, shards: int, options: SearchOptions) -> None:
    found = searcher(whole, actors(whole, shards)).search_many(SENTENCES, options)
    same_answers(found, whole.search_many(SENTENCES, options))
    assert not any(each.missing for each in found)


def test_queries_with_options_of_their_own_share_a_pass(whole: Library) -> None:
    queries = [SENTENCES[number % len(SENTENCES)] for number in range(len(OPTIONS))]
    made = actors(whole, 2)
    same_answers(searcher(whole, made).search_many(queries, OPTIONS), whole.search_many(queries, OPTIONS))


def test_what_no_encoder_understands_is_said_alike(whole: Library) -> None:
    found = searcher(whole, actors(whole, 2)).search_many(["qwrtz pfff"], EVERYTHING)
    same_answers(found, whole.search_many(["qwrtz pfff"], EVERYTHING))
    assert not found[0].hits


def test_equal_scores_keep_their_order_across_shards(films: RenderedWorld, library: Library, tmp_path: Path) -> None:
    """Copies of one film in different shards: the one that was added first comes first, as in one piece."""
    folder = tmp_path / "copies"
    folder.mkdir()
    for number in range(6):
        shutil.copy2(sorted(films.videos.values())[0], folder / f"copy{number}.mp4")
    library.add([folder])
    for shards in (2, 3, 6):
        found = searcher(library, actors(library, shards)).search_many(SENTENCES, EVERYTHING)
        same_answers(found, library.search_many(SENTENCES, EVERYTHING))
        assert [hit.video.id for hit in found[0]] == [1, 2, 3, 4, 5, 6]


def test_a_library_that_changes_is_followed(
    films: RenderedWorld, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added, removed and replaced videos, in several files on disk: shards take the new state at the next search."""
    monkeypatch.setattr(shards_module, "LARGEST", 20_000)  # a new file after a few films
    paths = sorted(films.videos.values())
    library.add(paths[:8])
    asking = searcher(library, actors(library, 3))
    for change in (
        lambda: None,
        lambda: library.add(paths[8:]),
        lambda: library.remove(paths[2:12:3]),
        lambda: library.add(paths),
    ):
        change()
        same_answers(asking.search_many(SENTENCES, EVERYTHING), library.search_many(SENTENCES, EVERYTHING))
    assert len(library.snapshot().tracks["frames"].shards) > 2


def test_a_replica_answers_for_a_killed_one(whole: Library) -> None:
    made = actors(whole, 3, replicas=2)
    asking, expected = searcher(whole, made), whole.search_many(SENTENCES, EVERYTHING)
    made[1][0].dead = made[2][1].dead = True
    for _ in range(4):  # whose turn it is changes
        found = asking.search_many(SENTENCES, EVERYTHING)
        same_answers(found, expected)
        assert not any(each.missing for each in found)
    assert made[1][0].answered == 0
    made[1][0].dead = False
    for _ in range(4):
        same_answers(asking.search_many(SENTENCES, EVERYTHING), expected)
    assert made[1][0].answered > 0  # trusted again


@pytest.mark.parametrize("options", [EVERYTHING, SearchOptions(limit=20, group_by="moment")], ids=["video", "moment"])
def test_a_missing_shard_is_told(whole: Library, options: SearchOptions) -> None:
    made = actors(whole, 3)
    asking, expected = searcher(whole, made), whole.search_many(SENTENCES, options)
    lost = set(assign(whole.snapshot(), 3)[1].tolist())
    made[1][0].dead = True
    for _ in range(2):
        for found, full in zip(asking.search_many(SENTENCES, options), expected, strict=True):
            assert found.missing is not None
            assert found.to_dict()["partial"] is True
            assert found.missing.shards == (1,)
            assert found.missing.videos == len(lost)
            assert found.missing.share == pytest.approx(len(lost) / 16)
            assert found.total == 16 - len(lost)
            assert "could not be searched" in found.message
            if options is EVERYTHING:  # the others keep their order
                assert [h.video.id for h in found] == [h.video.id for h in full if h.video.id not in lost]
            assert not lost & {hit.video.id for hit in found}
    made[1][0].dead = False
    asking.search_many(SENTENCES, options)  # notices that it is back
    same_answers(asking.search_many(SENTENCES, options), expected)


def test_nothing_answers(whole: Library) -> None:
    made = actors(whole, 2)
    for row in made:
        row[0].dead = True
    (found,) = searcher(whole, made).search_many(SENTENCES[:1], EVERYTHING)
    assert not found.hits
    assert found.missing is not None
    assert found.missing.share == 1
    assert found.message.startswith("16 videos (100% of the library) could not be searched")
