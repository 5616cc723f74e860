"""Approximate candidates: scored exactly, never stale, and compared with exact search."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.library import (
    INDEX_FOLDER,
    CandidateIndex,
    Filters,
    IndexSettings,
    Library,
    LibraryError,
    NoCandidates,
    SearchRequest,
)
from prvr.library import library as facade
from prvr.library.search import candidate_build, candidates
from prvr.library.search.stretches import merge_tokens
from prvr.library.store import arrays
from prvr.library.store.catalogue import Catalogue, drop_video
from prvr.library.store.sections import ShardSections
from prvr.worlds import RenderedWorld

lance = pytest.importorskip("lance", reason='needs Lance: pip install "prvr[candidates]"')
QUERY = "a red circle moves to the left"


@pytest.fixture(autouse=True)
def _small_libraries_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "FEWEST_TOKENS", 10)


@pytest.fixture
def mine(whole: Library, tmp_path: Path) -> Library:
    """A copy of the library of all films."""
    shutil.copytree(whole.folder, tmp_path / "mine")
    return Library.open(tmp_path / "mine")


def test_candidates_are_scored_as_in_exact_search(mine: Library) -> None:
    assert mine.index(IndexSettings(videos=3)) == ["frames"]
    exact = {hit.video.id: hit for hit in mine.search(QUERY, limit=50)}
    found = mine.search(QUERY, limit=50, approximate=True).hits
    assert 3 <= len(found) <= len(exact)
    for hit in found:
        other = exact[hit.video.id]
        assert hit.score == pytest.approx(other.score, abs=1e-5)
        assert (hit.start, hit.end) == pytest.approx((other.start, other.end))
        assert hit.confidence == pytest.approx(other.confidence)
    assert found[0].video == mine.search(QUERY, limit=1).hits[0].video


def test_neighbours_in_a_pass_change_nothing(mine: Library) -> None:
    """Each query has candidates of its own, whatever else is asked at the same time, and with what options."""
    mine.index(IndexSettings(videos=2))
    mates = ["something blue falls", "a yellow star", "a green circle over sand"]
    request = SearchRequest(QUERY, limit=50, approximate=True)
    alone = mine.search_many([request])[0]
    for others in (request, SearchRequest("", limit=5), SearchRequest("", filters=Filters(min_duration=0.1))):
        found = mine.search_many([*(replace(others, query=mate) for mate in mates), request])[-1]
        assert [(h.video.id, h.score, h.confidence) for h in found] == [
            (h.video.id, h.score, h.confidence) for h in alone
        ]
        assert found.total == alone.total


def test_a_query_is_encoded_once_and_the_index_opened_once(mine: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.index()
    opened, encoded = [], []
    real, encode = CandidateIndex.open, facade.encode_queries
    monkeypatch.setattr(CandidateIndex, "open", lambda *given: opened.append(given) or real(*given))
    monkeypatch.setattr(facade, "encode_queries", lambda *given: encoded.append(given) or encode(*given))
    lib = Library.open(mine.folder)
    for _ in range(3):
        lib.search(QUERY, approximate=True)
    assert (len(opened), len(encoded)) == (1, 3)
    mine.index()  # another process builds it anew
    lib.search(QUERY, approximate=True)
    assert len(opened) == 3  # by who built it, and by who searches


def test_what_came_later_is_found_and_what_went_is_not(mine: Library, films: RenderedWorld) -> None:
    paths = sorted(films.videos.values())
    mine.remove(paths[:1])
    mine.index(IndexSettings(videos=2))
    mine.add(paths[:1])
    gone = mine.remove(paths[1:2])
    found = {hit.video.path for hit in mine.search(QUERY, limit=50, approximate=True)}
    assert paths[0] in found
    assert gone[0].path not in found


def test_filters_are_answered_exactly(mine: Library) -> None:
    mine.index(IndexSettings(videos=1))
    everything = Filters(min_duration=0.1)
    exact, found = (mine.search(QUERY, limit=50, filters=everything, approximate=way) for way in (False, True))
    assert [hit.video for hit in found] == [hit.video for hit in exact]


def test_without_an_index_it_says_what_to_do(mine: Library) -> None:
    with pytest.raises(LibraryError, match="prvr library index"):
        mine.search(QUERY, approximate=True)


@pytest.mark.parametrize("part", ["*.json", "*.lance/_versions/*", "*.lance/data/*", "*.lance/_indices/*/*"])
def test_a_damaged_index_is_named(mine: Library, part: str) -> None:
    mine.index()
    for file in (mine.folder / INDEX_FOLDER).glob(part):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 3])
    with pytest.raises(NoCandidates, match="library index` again"):
        Library.open(mine.folder).search(QUERY, approximate=True)
    mine.index()
    assert len(mine.search(QUERY, limit=3, approximate=True)) == 3


def test_a_lost_index_is_named(mine: Library) -> None:
    mine.index()
    shutil.rmtree(table_of(mine))
    with pytest.raises(NoCandidates, match="library index` again"):
        mine.search(QUERY, approximate=True)


@pytest.mark.parametrize(("format", "remedy"), [(1, "run `prvr library index` again"), (99, "update prvr")])
def test_an_index_of_another_format_is_named(mine: Library, format: int, remedy: str) -> None:
    mine.index()
    record = mine.folder / INDEX_FOLDER / "frames.json"
    record.write_text(json.dumps({**json.loads(record.read_text("utf-8")), "format": format}), "utf-8")
    with pytest.raises(NoCandidates, match=remedy):
        mine.search(QUERY, approximate=True)


def table_of(library: Library) -> Path:
    """The table that the index of pictures uses."""
    folder = library.folder / INDEX_FOLDER
    return folder / json.loads((folder / "frames.json").read_text("utf-8"))["table"]


def test_a_search_goes_on_while_the_index_is_replaced(mine: Library) -> None:
    """The table that it has opened is deleted, and so is what killed processes and older versions left."""
    mine.index()
    reader, again = (Library.open(mine.folder) for _ in range(2))
    opened = reader.store.candidates(reader.snapshot())["frames"]
    for leftover in ("frames-old.faiss", "frames-killed.lance"):
        (mine.folder / INDEX_FOLDER / leftover).write_bytes(b"")
    first = table_of(mine)
    mine.index()
    assert [*(mine.folder / INDEX_FOLDER).glob("frames-*")] == [table_of(mine)] != [first]
    background = mine.tracks["frames"].background[:3]
    expected = again.store.candidates(again.snapshot())["frames"].of(background)
    assert [each.tolist() for each in opened.of(background)] == [each.tolist() for each in expected]


def test_an_index_that_cannot_be_written_leaves_the_old_one(mine: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.index()
    table = table_of(mine)

    def full_disk(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(candidate_build, "build_stretch_index", full_disk)
        with pytest.raises(LibraryError, match=r"could not be written.*No space left"):
            mine.index()
    assert [*(mine.folder / INDEX_FOLDER).glob("frames-*")] == [table]
    assert mine.search(QUERY, approximate=True).hits


def test_the_table_holds_the_stretches_of_every_section(
    mine: Library, films: RenderedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several shards, one of them with rows of removed videos."""
    paths = sorted(films.videos.values())
    mine.remove(paths[2:3])
    monkeypatch.setattr(arrays, "SHARD_LIMIT", 1)
    mine.add(paths[2:3])
    with Catalogue(mine.folder).writing() as db:  # without freeing the space
        drop_video(db, mine.store.find(path=paths[5])[0].id)
    monkeypatch.setattr(candidate_build, "_TOKENS_AT_ONCE", 20)  # several batches of a shard
    mine.index()
    sections = mine.snapshot().tracks["frames"]
    assert isinstance(sections, ShardSections)
    assert [len(shard.rows) for shard in sections.shards] == [len(paths) - 2, 1]
    assert len(sections.shards[0]) == len(paths) - 1
    stored = {row["row"]: row["stretches"] for row in lance.dataset(table_of(mine)).to_table().to_pylist()}
    for number, owner in enumerate(sections.owners):
        _, tokens = sections.tokens_of_video(owner)
        place = sections.shards[sections.shard[number]].id << candidates.SHARD_BITS | int(sections.row[number])
        np.testing.assert_allclose(stored.pop(place), merge_tokens(tokens, np.array([len(tokens)]))[0])
    assert stored == {}


def test_a_small_library_needs_none(mine: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "FEWEST_TOKENS", 10**9)
    assert mine.index() == []
    assert not (mine.folder / INDEX_FOLDER).exists()


def test_without_lance_it_names_the_install(mine: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(LibraryError, match=r'pip install "prvr\[candidates\]"'):
        mine.index()


def test_the_commands(mine: Library, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--library", str(mine.folder)]
    assert main(["library", "index", *place]) == 0
    assert "of the exact best 10" in capsys.readouterr().out
    assert main(["library", "verify", *place]) == 0
    assert "approximate search, frames: finds" in capsys.readouterr().out
    assert main(["search", QUERY, "--approximate", *place]) == 0
