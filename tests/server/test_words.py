"""Words over time, of a library whose model has a witness: in the API, and under *Why this one?*."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from prvr.library import Library
from prvr.server import create_app
from tests.library.conftest import data, films, run, trained, witnessed  # noqa: F401
from tests.server.browsing import search_for
from tests.server.conftest import serving, watched_page

SENTENCE = "a red square moves to the left"


def evidence(library: Library) -> dict[str, Any]:
    with TestClient(create_app(library), base_url="http://localhost") as client:
        first = client.post("/v1/search", json={"query": SENTENCE}).json()["hits"][0]
        found: dict[str, Any] = client.get(first["evidence_url"]).json()
        return found


def test_the_evidence_has_a_curve_for_each_word(witnessed: Library, trained: Library) -> None:  # noqa: F811
    words = evidence(witnessed)["words"]
    assert [each["word"] for each in words["words"]] == SENTENCE.split()
    assert {len(each["evidence"]) for each in words["words"]} == {len(words["spans"])}
    assert evidence(trained)["words"] is None


@pytest.fixture(scope="module")
def address(witnessed: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: F811
    folder: Path = tmp_path_factory.mktemp("empty")
    (folder / "new").mkdir()
    (folder / "library").symlink_to(witnessed.folder)
    with serving(folder, tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_a_row_for_each_word(browser: Any, address: str, width: int) -> None:
    with watched_page(browser, address) as page:
        page.set_viewport_size({"width": width, "height": 900})
        search_for(page, SENTENCE)
        page.locator(".hit > button").first.click()
        page.wait_for_selector("#curves svg path")
        page.locator("#why summary").click()
        rows = page.locator("#words li")
        assert rows.count() == len(SENTENCE.split())
        assert rows.nth(1).locator("span").inner_text() == "red"
        assert rows.nth(1).locator("rect").count() > 4
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        rows.nth(1).locator("button").click()
