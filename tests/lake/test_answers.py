"""A lake answers as a library in a folder does: exactly the same for the same vectors; its index, with few misses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from prvr.lake import copy_library, index
from prvr.lake.index import LakeCandidates
from prvr.lake.sections import CACHE_MEGABYTES
from prvr.library import (
    FRAMES,
    STRETCHES,
    Filters,
    IndexSettings,
    Library,
    LibrarySettings,
    NoCandidates,
    SearchRequest,
)
from prvr.worlds import RenderedWorld
from tests.lake.conftest import RATE, SENTENCE, drawn_videos, opened, require_unique
from tests.library.conftest import data, run, trained  # noqa: F401
from tests.library.search.drawn_library import requests, summary
from tests.s3 import S3Server


def answers(library: Library, asked: list[SearchRequest] | None = None) -> list[Any]:
    """Everything that is compared, with paths instead of numbers: a copy numbers its videos anew."""
    found = []
    for request in asked or requests():
        result = library.search_many([request])[0]
        rows = summary(result)
        rows["hits"] = [[str(hit.video.path), *row[1:]] for hit, row in zip(result, rows["hits"], strict=False)]
        found.append(rows)
    return found


@pytest.fixture(scope="module")
def known(drawn: Library) -> list[Any]:
    """What the library in a folder answers to requests of every kind."""
    return answers(drawn, requests()[:60])


def test_a_copy_answers_exactly_like_the_original(lake: Library, known: list[Any]) -> None:
    assert answers(lake, requests()[:60]) == known


def test_in_a_bucket_as_well(drawn: Library, bucket: str, known: list[Any], s3: S3Server) -> None:
    assert copy_library(drawn.address, f"{bucket}/drawn") == (118, 0)
    assert copy_library(drawn.address, f"{bucket}/drawn") == (0, 118)
    library = opened(f"{bucket}/drawn", drawn)
    assert answers(library, requests()[:12]) == known[:12]
    asked = [SearchRequest("sentence 0 1", limit=50)]  # with and without subtitles
    (first,) = answers(library, asked)
    before = len(s3.requests)
    assert answers(library, asked) == [first]
    assert len(s3.requests) - before <= 3 + 2 * first["count"]  # only what is new: three tables are asked for it


@pytest.mark.parametrize("storage", ["int8", "fp16"])
def test_in_every_way_to_store_vectors(storage: str, films: RenderedWorld, tmp_path: Path) -> None:
    folder = Library.create(tmp_path / "library", encoder="plain", rate=RATE, storage=storage)
    folder.add(sorted(films.videos.values())[:4])
    copy_library(folder.address, str(tmp_path / "copy.lance"))
    asked = [SearchRequest(SENTENCE), SearchRequest("something blue falls", trace=False, group_by="moment")]
    copy = opened(tmp_path / "copy.lance", folder)
    assert answers(copy, asked) == answers(folder, asked)
    assert LibrarySettings(**vars(copy.settings)).storage == storage


def test_with_a_trained_model(trained: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The model travels with the library: on another machine it is fetched from the lake."""
    copy_library(trained.address, str(tmp_path / "copy.lance"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = opened(tmp_path / "copy.lance", Library(trained.store))
    asked = [SearchRequest(SENTENCE), SearchRequest("something blue falls", trace=False)]
    assert answers(copy, asked) == answers(trained, asked)
    (weights,) = tmp_path.glob("prvr/*/weights/*/model.safetensors")
    weights.write_bytes(b"damaged")
    assert opened(tmp_path / "copy.lance", Library(trained.store)).verify().ok  # fetched again


def test_there_and_back(drawn: Library, lake: Library, tmp_path: Path, known: list[Any]) -> None:
    assert copy_library(lake.address, str(tmp_path / "back")) == (118, 0)
    assert answers(opened(tmp_path / "back", drawn), requests()[:20]) == known[:20]


def test_after_every_kind_of_change(drawn: Library, lake: Library, tmp_path: Path) -> None:
    """Remove, replace, tag and move in both; the answers stay equal."""
    shutil.copytree(drawn.folder, tmp_path / "folder")
    folder = opened(tmp_path / "folder", drawn)
    for library in (folder, lake):
        videos = library.videos()
        library.remove([videos[3].path, videos[50].path, "/made up/1/005.mp4"])
        new = drawn_videos(drawn, 20, 22)
        new[0].video = replace(new[0].video, digest="changed", path=videos[30].path)  # replaces it
        new[1].video = replace(new[1].video, path=Path("/made up/0/new.mp4"))
        library.store.commit(new)
        library.store.add_tags([video.id for video in library.videos()[:40]], ["home", "new"])
        library.store.rename(videos[60], Path("/made up/2/moved.mp4"), 5)
        library.store.clean()
    asked = [*requests()[:25], SearchRequest("sentence 0 1", filters=Filters(tags=("new",)), limit=50)]
    assert answers(lake, asked) == answers(folder, asked)
    require_unique(lake, len(folder.videos()))


def test_a_small_cache_changes_nothing_and_stays_small(
    drawn: Library, lake: Library, known: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_MEGABYTES, "0.02")
    small = opened(lake.address, drawn)
    assert answers(small, requests()[:15]) == known[:15]
    assert 0 < small.store.cache.values.currsize <= small.store.cache.values.maxsize == 20971


class TestApproximate:
    @pytest.fixture(autouse=True)
    def _small_libraries_are_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index, "FEWEST_TOKENS", 10)

    def test_candidates_are_scored_as_in_exact_search(self, lake: Library) -> None:
        assert set(lake.index(IndexSettings(videos=40))) == {"frames", "text"}
        one_track = [each for each in requests() if "silent" in str(each.query) and each.group_by == "video"]
        for asked in one_track[:8]:  # fused scores of two tracks depend on the other candidates
            exact = {hit.video.id: hit.score for hit in lake.search_many([replace(asked, limit=200, offset=0)])[0]}
            found = lake.search_many([replace(asked, approximate=True)])[0]
            assert all(hit.score == pytest.approx(exact[hit.video.id], abs=1e-5) for hit in found)

    def test_the_recall_is_measured(self, lake: Library) -> None:
        lake.index(IndexSettings(videos=60))
        assert all(0.9 <= recall.share <= 1 for recall in lake.recall().values())

    def test_what_came_later_is_found_and_what_went_is_not(self, drawn: Library, lake: Library) -> None:
        videos = lake.videos()
        lake.remove([videos[0].path])
        lake.index(IndexSettings(videos=120))
        lake.store.commit(drawn_videos(drawn, 0, 1))
        lake.remove([videos[5].path])
        found = {hit.video.path for hit in lake.search("sentence 0 1", limit=200, approximate=True)}
        assert videos[0].path in found
        assert videos[5].path not in found

    def test_the_index_is_used_after_compaction(self, lake: Library, monkeypatch: pytest.MonkeyPatch) -> None:
        lake.index(IndexSettings(videos=40))
        before = answers(lake, [replace(each, approximate=True) for each in requests()[:10]])
        monkeypatch.setattr("prvr.lake.cleaning._MANY_FILES", 0)
        lake.store.clean()
        assert answers(lake, [replace(each, approximate=True) for each in requests()[:10]]) == before
        candidates = lake.store.candidates(lake.snapshot())[FRAMES]
        assert isinstance(candidates, LakeCandidates)
        plan = candidates.sections.table.scanner(
            nearest={"column": STRETCHES, "q": torch.zeros(16).numpy(), "k": 1}
        ).explain_plan()
        assert "ANN" in plan

    def test_a_damaged_index_is_named(self, drawn: Library, lake: Library) -> None:
        lake.index(IndexSettings(videos=40))
        for file in Path(lake.address).rglob("index.idx"):
            file.write_bytes(file.read_bytes()[:100])
        damaged = opened(lake.address, drawn)
        with pytest.raises(NoCandidates, match="run `prvr library index` again, or search exactly"):
            damaged.search("sentence 0 1", approximate=True)
        assert len(damaged.search("sentence 0 1")) == 10
        damaged.index(IndexSettings(videos=40))
        assert len(damaged.search("sentence 0 1", approximate=True)) == 10

    def test_queries_without_meaning_have_no_candidates_and_no_error(self, lake: Library) -> None:
        lake.index(IndexSettings(videos=40))
        assert "understands nothing" in lake.search("silent blind", approximate=True).message
