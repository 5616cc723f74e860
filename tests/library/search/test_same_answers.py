"""Answers stay what they were: searches with filters, moments, two tracks and pages, alone and in batches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prvr.library import Library, SearchResult
from prvr.library.search import knowledge, same, score
from tests.library.search.drawn_library import ANSWERS, drawn_library, requests, summary

KNOWN: list[dict[str, Any]] = json.loads(ANSWERS.read_text())


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return drawn_library(tmp_path_factory.mktemp("drawn") / "library")


@pytest.fixture(params=["numpy", "torch"])
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(score, "MOST_FOR_NUMPY", 0)


@pytest.fixture(autouse=True)
def _each_file_is_a_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers were written when each file was a hit of its own, and hubs were not lessened."""
    monkeypatch.setattr(same, "MEAN_COSINE", 2.0)
    monkeypatch.setattr(knowledge, "_HUB_WEIGHT", 0.0)


def require_same(results: list[SearchResult]) -> None:
    for request, result, known in zip(requests(), results, KNOWN, strict=False):
        found = summary(result)
        assert {**found, "hits": None} == {**known, "hits": None}, request
        for hit, expected in zip(found["hits"], known["hits"], strict=True):
            assert (hit[0], *hit[4:]) == (expected[0], *expected[4:]), request
            assert hit[1:4] == pytest.approx(expected[1:4], abs=1e-5), request


@pytest.mark.usefixtures("_engine")
def test_one_search_at_a_time(drawn: Library) -> None:
    assert len(requests()) == len(KNOWN)
    asked = requests()[:60]  # of every kind; the batches below ask all
    require_same([drawn.search_many([request])[0] for request in asked])


@pytest.mark.usefixtures("_engine")
def test_in_batches(drawn: Library) -> None:
    """A batch multiplies matrices where one query multiplies a vector, so its scores differ in the fourth digit."""
    everything = requests()
    for start in range(0, len(everything), 32):
        for result, known in zip(drawn.search_many(everything[start : start + 32]), KNOWN[start:], strict=False):
            found = summary(result)
            assert found["total"] == known["total"]
            scores = [hit[3] for hit in found["hits"]]
            assert scores == pytest.approx([hit[3] for hit in known["hits"]], abs=2e-3)
            assert found["count"] == known["count"]
