"""Searches through shards, without a cluster: the same answers as those of the library itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from prvr.cluster.partition import assign_videos
from prvr.library import Filters, IndexSettings, Library, SearchRequest
from prvr.worlds import RenderedWorld
from tests.cluster.alike import OPTIONS, SENTENCES, requests, same_answers
from tests.cluster.made import QUERIES, VIDEOS, open_made_library
from tests.cluster.standin import searcher, start_actors

SOME = Filters(folder=Path("/made up/2"))
MADE_OPTIONS: tuple[dict[str, Any], ...] = (
    {"limit": 10},
    {"limit": 100, "offset": 70},
    {"limit": 500},
    {"limit": 3, "trace": False},
    {"limit": 15, "filters": SOME},
    {"limit": 5, "offset": 2, "min_confidence": 0.4},
    {"limit": 500, "min_confidence": 0.6},
    {"limit": 4, "offset": 3, "group_by": "moment"},
    {"limit": 130, "group_by": "moment"},
    {"limit": 5, "group_by": "moment", "filters": SOME, "min_confidence": 0.2},
)


@pytest.fixture(params=[0.9, 0.3], ids=["text rarely counts", "text often counts"])
def two_tracks(made_folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    for module in ("rank", "results"):
        monkeypatch.setattr(f"prvr.library.search.{module}.CONFIDENT", request.param)
    return open_made_library(made_folder)


@pytest.fixture
def one_track(made_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A library whose text encoder understands nothing."""
    encode = Library.encode
    monkeypatch.setattr(Library, "encode", lambda self, name, queries: encode(self, name, queries) * (name == "frames"))
    return open_made_library(made_folder)


@pytest.mark.parametrize("shards", [1, 3, 40])
@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_shards_answer_as_the_library_does(whole: Library, shards: int, options: dict[str, Any]) -> None:
    found = searcher(whole, start_actors(whole, shards)).search_many(requests(**options))
    same_answers(found, whole.search_many(requests(**options)))
    assert not any(result.missing for result in found)


@pytest.mark.parametrize("options", MADE_OPTIONS, ids=range(len(MADE_OPTIONS)))
def test_fused_tracks(two_tracks: Library, options: dict[str, Any]) -> None:
    found = searcher(two_tracks, start_actors(two_tracks, 4)).search_many(requests(QUERIES, **options))
    same_answers(found, two_tracks.search_many(requests(QUERIES, **options)))
    assert options.get("min_confidence", 0) > 0.5 or any(len(hit.ranks) == 2 for result in found for hit in result)


def test_both_tracks_give_hits(made_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests of fused tracks would test only one."""
    for module in ("rank", "results"):
        monkeypatch.setattr(f"prvr.library.search.{module}.CONFIDENT", 0.3)
    results = open_made_library(made_folder).search_many(requests(QUERIES, limit=50))
    assert {hit.track for result in results for hit in result} == {"frames", "text"}


@pytest.mark.parametrize("options", MADE_OPTIONS, ids=range(len(MADE_OPTIONS)))
def test_one_track(one_track: Library, options: dict[str, Any]) -> None:
    found = searcher(one_track, start_actors(one_track, 5)).search_many(requests(QUERIES, **options))
    same_answers(found, one_track.search_many(requests(QUERIES, **options)))


def test_requests_of_one_pass_may_differ(two_tracks: Library) -> None:
    mixed = [SearchRequest(QUERIES[n % len(QUERIES)], **options) for n, options in enumerate(MADE_OPTIONS)]
    actors = start_actors(two_tracks, 3)
    same_answers(searcher(two_tracks, actors).search_many(mixed), two_tracks.search_many(mixed))
    assert [row[0].answered for row in actors] == [2, 2, 2]  # one pass for each track


def test_a_query_that_no_encoder_understands_gets_the_same_message(whole: Library) -> None:
    asked = requests(["qwrtz pfff"])
    found = searcher(whole, start_actors(whole, 2)).search_many(asked)
    same_answers(found, whole.search_many(asked))
    assert not found[0].hits


def test_an_empty_library(library: Library) -> None:
    found = searcher(library, start_actors(library, 2)).search_many(requests())
    same_answers(found, library.search_many(requests()))


def test_equal_scores_keep_their_order_across_shards(films: RenderedWorld, library: Library, tmp_path: Path) -> None:
    """Copies of one film in different shards: the one that was added first comes first."""
    copies = tmp_path / "copies"
    copies.mkdir()
    for number in range(6):
        shutil.copy2(sorted(films.videos.values())[0], copies / f"copy{number}.mp4")
    library.add([copies])
    for shards in (2, 3, 6):
        found = searcher(library, start_actors(library, shards)).search_many(requests())
        same_answers(found, library.search_many(requests()))
        assert [hit.video.id for hit in found[0]] == [1, 2, 3, 4, 5, 6]


def test_a_library_that_changes_is_followed(
    films: RenderedWorld, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Videos are added, removed and replaced, in several files on disk: the next search uses the new state."""
    monkeypatch.setattr("prvr.library.store.arrays.SHARD_LIMIT", 20_000)  # a new file after a few films
    paths = sorted(films.videos.values())
    library.add(paths[:8])
    cluster = searcher(library, start_actors(library, 3))
    for change in (
        lambda: None,
        lambda: library.add(paths[8:]),
        lambda: library.remove(paths[2:12:3]),
        lambda: library.add(paths),
    ):
        change()
        same_answers(cluster.search_many(requests()), library.search_many(requests()))
    assert len(library.snapshot().tracks["frames"].shards) > 2


def test_a_score_is_sent_as_four_bytes(one_track: Library) -> None:
    actors = start_actors(one_track, 2)
    searcher(one_track, actors).search_many(requests(QUERIES[:3]))
    assert sum(row[0].sent for row in actors) == 3 * 4 * len(one_track.snapshot().tracks["frames"])


@pytest.fixture
def indexed(made_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """A library with a candidate index."""
    pytest.importorskip("faiss", reason='needs faiss: pip install "prvr[candidates]"')
    monkeypatch.setattr("prvr.library.search.candidates.FEWEST_TOKENS", 10)
    shutil.copytree(made_folder, tmp_path / "mine")
    library = open_made_library(tmp_path / "mine")
    library.index(IndexSettings(videos=5, neighbours=40))
    return library


@pytest.mark.parametrize("group_by", ["video", "moment"])
def test_each_shard_scores_the_candidates_that_it_holds(indexed: Library, group_by: str) -> None:
    mixed = [*requests(QUERIES, limit=30, group_by=group_by, approximate=True), *requests(QUERIES[:2], limit=5)]
    found = searcher(indexed, start_actors(indexed, 3)).search_many(mixed)
    same_answers(found, indexed.search_many(mixed))
    assert all((result.total or 0) < VIDEOS for result in found[: len(QUERIES)])


def test_candidates_of_a_missing_shard_come_back_with_it(indexed: Library) -> None:
    asked = requests(QUERIES, limit=30, approximate=True)
    actors = start_actors(indexed, 3)
    cluster, expected = searcher(indexed, actors), indexed.search_many(asked)
    lost = set(assign_videos(indexed.snapshot(), 3)[1].tolist())
    actors[1][0].dead = True
    for result in cluster.search_many(asked):
        assert result.missing is not None
        assert result.hits
        assert not lost & {hit.video.id for hit in result}
    actors[1][0].dead = False
    same_answers(cluster.search_many(asked), expected)


def test_a_replica_answers_for_a_killed_one(whole: Library) -> None:
    actors = start_actors(whole, 3, replicas=2)
    cluster, expected = searcher(whole, actors), whole.search_many(requests())
    actors[1][0].dead = actors[2][1].dead = True
    for _ in range(4):  # replicas take turns
        found = cluster.search_many(requests())
        same_answers(found, expected)
        assert not any(result.missing for result in found)
    assert actors[1][0].answered == 0
    actors[1][0].dead = False
    for _ in range(4):
        same_answers(cluster.search_many(requests()), expected)
    assert actors[1][0].answered > 0  # trusted again


@pytest.mark.parametrize("options", [{"limit": 100}, {"limit": 20, "group_by": "moment"}], ids=["video", "moment"])
def test_a_missing_shard_is_reported(whole: Library, options: dict[str, Any]) -> None:
    actors = start_actors(whole, 3)
    cluster, expected = searcher(whole, actors), whole.search_many(requests(**options))
    lost = set(assign_videos(whole.snapshot(), 3)[1].tolist())
    actors[1][0].dead = True
    for _ in range(2):
        for found, full in zip(cluster.search_many(requests(**options)), expected, strict=True):
            assert found.missing is not None
            assert found.to_dict()["partial"] is True
            assert found.missing.shards == (1,)
            assert found.missing.videos == len(lost)
            assert found.missing.share == pytest.approx(len(lost) / 16)
            assert found.total == 16 - len(lost)
            assert "could not be searched" in found.message
            if "group_by" not in options:  # the others keep their order
                assert [h.video.id for h in found] == [h.video.id for h in full if h.video.id not in lost]
            assert not lost & {hit.video.id for hit in found}
    actors[1][0].dead = False
    same_answers(cluster.search_many(requests(**options)), expected)


def test_a_partial_answer_is_that_of_a_library_without_those_videos(whole: Library, tmp_path: Path) -> None:
    """Confidence and ranks too: hits are compared with the videos that were searched."""
    shutil.copytree(whole.folder, tmp_path / "rest")
    rest = Library.open(tmp_path / "rest")
    videos = whole.snapshot().videos
    rest.remove([videos[number].path for number in assign_videos(whole.snapshot(), 3)[1].tolist()])
    actors = start_actors(whole, 3)
    actors[1][0].dead = True
    found = searcher(whole, actors).search_many(requests())
    for partial, expected in zip(found, rest.search_many(requests()), strict=True):
        assert [hit.to_dict() for hit in partial] == [hit.to_dict() for hit in expected]


def test_nothing_answers(whole: Library) -> None:
    actors = start_actors(whole, 2)
    for row in actors:
        row[0].dead = True
    (found,) = searcher(whole, actors).search_many(requests(SENTENCES[:1]))
    assert not found.hits
    assert found.missing is not None
    assert found.missing.share == 1
    assert found.message.startswith("16 videos (100% of the library) could not be searched")


def test_a_silent_shard_without_videos_is_not_missed(whole: Library) -> None:
    actors = start_actors(whole, 40)
    empty = next(n for n, videos in enumerate(assign_videos(whole.snapshot(), 40)) if not len(videos))
    actors[empty][0].dead = True
    cluster = searcher(whole, actors)
    cluster.shards.replicas[empty][0].doubt()
    same_answers(cluster.search_many(requests()), whole.search_many(requests()))
