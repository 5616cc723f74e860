"""A server while its library is given other vectors, and what it says about names, limits and other files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from prvr.library import PLAIN_LIMITS, Library
from tests.server.browsing import search_for
from tests.server.conftest import Served

QUERY = {"query": "a red square moves to the left", "limit": 20}


def test_a_running_server_follows_a_reindexed_library(served: Served) -> None:
    before = served.client.post("/v1/search", json=QUERY).json()["hits"]
    Library.open(served.folder / "library").reindex(encoder="plain", rate=4.0)  # by another process, as it were
    fresh = Library.open(served.folder / "library")
    expected = [(hit.video.id, round(hit.score, 6)) for hit in fresh.search(QUERY["query"], limit=20)]
    after = served.client.post("/v1/search", json=QUERY).json()["hits"]
    assert [(hit["video"]["id"], hit["score"]) for hit in after] == expected
    assert [hit["score"] for hit in after] != [hit["score"] for hit in before]
    assert served.client.get(after[0]["evidence_url"]).status_code == 200
    assert served.library.settings.rate == 4.0
    fresh.remove([fresh.videos()[0].path])
    assert served.client.post("/v1/search", json=QUERY).json()["videos_searched"] == len(fresh.videos())


def test_names_limits_and_other_files_are_told(served: Served) -> None:
    assert PLAIN_LIMITS in served.client.get("/v1/library").json()["limits"]
    film = next(video.path for video in served.library.videos() if video.path.parent.name == "inner")
    copy = served.folder / "copy of it.mp4"
    shutil.copy(film, copy)
    served.library.add([copy])
    hits = served.client.post("/v1/search", json=QUERY).json()["hits"]
    (hit,) = (hit for hit in hits if hit["also_at"])
    assert hit["video"]["name"].endswith(f"inner/{film.name}")
    assert hit["also_at"][0].endswith("/copy of it.mp4")
    assert not hit["also_at"][0].startswith("/")
    assert len(hits) == len(served.library.videos()) - 1


def test_the_page_tells_them_too(browser: Any, own_address: str, tmp_path: Path, sentence: str) -> None:
    library = Library.open(tmp_path / "library")
    film = next(video.path for video in library.videos() if video.path.parent.name == "inner")
    page = browser.new_context(base_url=own_address).new_page()
    page.goto("/")
    page.wait_for_selector("#holds[data-videos]")
    assert PLAIN_LIMITS in page.inner_text("#limits")
    shutil.copy(film, tmp_path / "again.mp4")
    library.add([tmp_path / "again.mp4"])
    search_for(page, sentence)
    page.wait_for_selector(".hit")
    assert f"inner/{film.name}" in page.inner_text("#results")
    assert "again.mp4" in page.inner_text(".also")
    page.context.close()
