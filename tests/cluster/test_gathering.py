"""Shards tell their best and sums over the rest: the same answers, whatever the size of the library."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.cluster.parts import Best, Part
from prvr.library import Filters, Library, SearchOptions
from prvr.library.search import answering, candidates, searching
from prvr.library.search.asking import Question, Wanted
from prvr.library.search.candidates import IndexSettings
from prvr.library.search.confidence import Heard, Moments
from prvr.library.store.snapshot import Snapshot
from tests.cluster.alike import same_answers
from tests.cluster.made import QUERIES, made_library, opened
from tests.cluster.standin import Actor, Shards, actors, searcher

SOME = Filters(folder=Path("/made up/2"))
ASKED = (
    SearchOptions(),
    SearchOptions(limit=100, offset=70),
    SearchOptions(limit=500),
    SearchOptions(limit=3, trace=False),
    SearchOptions(limit=15, filters=SOME),
    SearchOptions(limit=5, offset=2, min_confidence=0.4),
    SearchOptions(limit=500, min_confidence=0.6),
    SearchOptions(limit=4, offset=3, group_by="moment"),
    SearchOptions(limit=130, group_by="moment"),
    SearchOptions(limit=5, group_by="moment", filters=SOME, min_confidence=0.2),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "library"
    made_library(place)
    return place


@pytest.fixture(params=[0.9, 0.3], ids=["lines rarely count", "lines often count"])
def two_tracks(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    for module in (searching, answering):
        monkeypatch.setattr(module, "CONFIDENT", request.param)
    return opened(folder)


@pytest.fixture
def one_track(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Lines of which nothing is understood leave the pictures alone."""
    lib = opened(folder)
    monkeypatch.setattr(
        type(lib), "encode", lambda self, name, queries, e=Library.encode: e(self, name, queries) * (name == "frames")
    )
    return lib


@pytest.mark.parametrize("options", ASKED, ids=range(len(ASKED)))
def test_fused_tracks(two_tracks: Library, options: SearchOptions) -> None:
    found = searcher(two_tracks, actors_of(two_tracks, 4)).search_many(QUERIES, options)
    same_answers(found, two_tracks.search_many(QUERIES, options))
    assert options.min_confidence > 0.5 or any(len(hit.ranks) == 2 for each in found for hit in each)


def test_lines_take_part(two_tracks: Library) -> None:
    tracks = {hit.track for each in two_tracks.search_many(QUERIES, SearchOptions(limit=50)) for hit in each}
    assert searching.CONFIDENT == 0.9 or tracks == {"frames", "text"}


@pytest.mark.parametrize("options", ASKED, ids=range(len(ASKED)))
def test_one_track(one_track: Library, options: SearchOptions) -> None:
    found = searcher(one_track, actors_of(one_track, 5)).search_many(QUERIES, options)
    same_answers(found, one_track.search_many(QUERIES, options))


def test_searches_of_one_pass_may_differ(two_tracks: Library) -> None:
    queries = [QUERIES[number % len(QUERIES)] for number in range(len(ASKED))]
    found = searcher(two_tracks, actors_of(two_tracks, 3)).search_many(queries, ASKED)
    same_answers(found, two_tracks.search_many(queries, ASKED))


def actors_of(lib: Library, shards: int, replicas: int = 1) -> list[list[Actor]]:
    made = actors(lib, shards, replicas)
    for row in made:
        for actor in row:
            actor.shard.library = lib  # with encoders that no name opens
    return made


def test_what_a_shard_tells_does_not_grow_with_it(one_track: Library, tmp_path: Path) -> None:
    """Ten times the videos: as many bytes, where all scores would have been 8 for each section."""
    told = []
    for videos in (40, 400):
        lib = made_library(tmp_path / str(videos), videos)
        made = actors_of(lib, 2)
        asking = searcher(lib, made)
        asking.search_many(QUERIES[:1], SearchOptions(limit=5))  # what background sentences score is asked for once
        before = made[0][0].told
        asking.search_many(QUERIES[:1], SearchOptions(limit=5))
        told.append(made[0][0].told - before)
    assert told[0] == told[1] <= 6 * 12 + 4 * 8  # six videos with their scores; how many there are, and two sums


def test_a_shard_tells_no_more_than_its_best(folder: Path) -> None:
    lib = opened(folder)
    vectors = {"frames": lib.encode("frames", QUERIES[:1]).numpy(), "text": np.zeros((1, 16), np.float32)}
    part = Part(lib.snapshot(), Question(vectors, (Wanted(depth=7),)))
    few = Best(0, "frames", 7).look(part)
    assert few is not None
    assert (len(few.ids), len(few.scores)) == (7, 7)
    assert few.count == part.rows[0]["frames"].count > 100
    assert Best(0, "text", 7).look(part) is None


def test_sums_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(0.3, 0.1, (90, 30, 2)).astype(np.float32)
    scores[:, 4] = 0  # nothing is understood of this one
    owners = np.arange(90) // 2
    whole = Heard.of(scores, owners, 0.03)
    parts = [Heard.of(scores[a:b], owners[a:b], 0.03) for a, b in ((0, 10), (10, 10), (10, 64), (64, 90))]
    joined = Heard.joined(parts)
    assert joined.understood.tolist() == whole.understood.tolist()
    assert joined.understood.sum() == 29
    assert joined.background.best == pytest.approx(whole.background.best)
    assert joined.background.above == pytest.approx(whole.background.above)
    values = rng.normal(5, 1, 1000).astype(np.float32)
    some = Moments.joined([Moments.of(values[a:b]) for a, b in ((0, 1), (1, 1), (1, 700), (700, 1000))])
    assert (some.count, some.mean) == (1000, pytest.approx(values.astype(np.float64).mean(), abs=1e-12))
    assert some.deviation == pytest.approx(values.astype(np.float64).std(), abs=1e-12)


def test_candidates_are_scored_by_whoever_holds_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason='needs faiss: pip install "prvr[candidates]"')
    monkeypatch.setattr(candidates, "FEWEST", 10)
    shutil.copytree(folder, tmp_path / "mine")
    lib = opened(tmp_path / "mine")
    lib.index(IndexSettings(videos=5, neighbours=40))
    for group_by in ("video", "moment"):
        options = SearchOptions(limit=30, group_by=group_by, approximate=True)  # type: ignore[arg-type]
        found = searcher(lib, actors_of(lib, 3)).search_many(QUERIES, options)
        same_answers(found, lib.search_many(QUERIES, options))
        assert all((each.total or 0) < 160 for each in found)


def test_what_more_is_asked_goes_to_whoever_has_the_scores(
    two_tracks: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tracks need places, which are asked for in further rounds: every part is scored once all the same."""
    scored: list[int] = []
    real = Part.__init__

    def counted(self: Part, snapshot: Snapshot, question: Question) -> None:
        scored.append(len(question.wanted))
        real(self, snapshot, question)

    monkeypatch.setattr(Part, "__init__", counted)
    made = actors_of(two_tracks, 3, replicas=2)
    asking = searcher(two_tracks, made)
    asking.search_many(QUERIES, SearchOptions())
    assert scored == [len(QUERIES)] * 3
    assert 3 < sum(actor.answered for row in made for actor in row) <= 3 * 5  # rounds: best, and twice places
    for far in (SearchOptions(limit=150, group_by="moment"), SearchOptions(limit=10, min_confidence=0.95)):
        scored.clear()
        before = sum(actor.answered for row in made for actor in row)
        asking.search_many(QUERIES[:1], far)
        assert scored == [1] * 3
        assert sum(actor.answered for row in made for actor in row) - before <= 3 * 20  # not one for each video


def test_a_late_replica_is_not_waited_for(folder: Path) -> None:
    """One of two is stopped: it neither answers nor fails. The other is asked soon, and answers for it."""
    lib = opened(folder)
    made = actors_of(lib, 3, replicas=2)
    asking = searcher(lib, made, patience=600.0)
    expected = lib.search_many(QUERIES, SearchOptions())
    asking.shards._took.extend([0.01] * 30)  # answers have been quick
    made[1][0].stopped = made[2][1].stopped = True
    for _ in range(4):
        found = asking.search_many(QUERIES, SearchOptions())
        same_answers(found, expected)
        assert not any(each.missing for each in found)
    assert (made[1][0].answered, made[2][1].answered) == (0, 0)
    assert asking.shards.hedged == 2  # once each: who owes an answer is asked last
    made[1][0].stopped = False
    for _ in range(4):
        same_answers(asking.search_many(QUERIES, SearchOptions()), expected)
    assert made[1][0].answered > 0


def test_nobody_answers_in_time(folder: Path) -> None:
    lib = opened(folder)
    made = actors_of(lib, 2, replicas=2)
    asking = searcher(lib, made, patience=0.3)
    made[1][0].stopped = made[1][1].stopped = True
    for _ in range(2):
        (found,) = asking.search_many(QUERIES[:1], SearchOptions())
        assert found.missing is not None
        assert found.missing.shards == (1,)
    made[1][0].stopped = made[1][1].stopped = False
    assert asking.search_many(QUERIES[:1], SearchOptions())[0].missing is None


def test_what_is_late_follows_recent_answers() -> None:
    shards = Shards(None, [], patience=10.0)
    assert shards.late_after == 1.0
    shards._took.extend(np.linspace(0.1, 0.2, 100).tolist())
    assert shards.late_after == pytest.approx(0.195)
    shards._took.extend([0.001] * 256)
    assert shards.late_after == 0.05  # no sooner
