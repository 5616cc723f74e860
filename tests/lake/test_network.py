"""A network that fails and a bucket that is read-only or gone: a clear sentence, and then it goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from prvr.lake import LakeError, StoreAway, copy_library, newest, open_library, tables
from prvr.lake.copying import create_alike
from prvr.library import Library
from prvr.server import create_app
from tests.lake.conftest import SENTENCE, Said, drawn_videos, opened, require_unique
from tests.lake.proxy import Proxy, no_fault
from tests.s3 import S3Server
from tests.waiting import until

Prvr = Callable[..., Said]
WRITES = ("PUT", "POST", "DELETE")


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_RETRIES", {**tables._RETRIES, "client_max_retries": "1", "client_retry_timeout": "1"})


@pytest.fixture
def library(drawn: Library, bucket: str, proxy: Proxy) -> Library:
    """Ten videos behind the network."""
    create_alike(drawn, f"{bucket}/drawn")
    made = opened(f"{bucket}/drawn", drawn)
    made.store.commit(drawn_videos(drawn, 2, 12))
    return made


def test_adding_over_a_bad_network_loses_and_doubles_nothing(bucket: str, own: Path, proxy: Proxy, prvr: Prvr) -> None:
    """Every tenth request fails in one of many ways. The command succeeds, or says one sentence and can be repeated."""
    chance, lock = random.Random(3), threading.Lock()

    def sometimes(method: str, path: str) -> str | None:
        with lock:
            kinds = ["500", "503", "slow", "drop", "lose", *(["cut"] if method == "GET" else [])]
            return chance.choice(kinds) if chance.random() < 0.1 else None

    proxy.fault = sometimes
    for _ in range(20):
        said = prvr("library", "add", own, "--library", f"{bucket}/films", "--encoder", "plain", "--rate", 2)
        if said.status == 0:
            break
        said.refuses("the storage does not answer: try again")
    assert said.status == 0
    assert proxy.faults > 3
    proxy.fault = no_fault
    require_unique(open_library(f"{bucket}/films"), 3)


@pytest.mark.parametrize("table", ["frames", "videos"])
def test_a_commit_whose_answer_is_lost_counts_once(table: str, drawn: Library, library: Library, proxy: Proxy) -> None:
    lost: list[str] = []

    def lose_one(method: str, path: str) -> str | None:
        if method == "PUT" and f"{table}.lance/_versions" in path and not lost:
            lost.append(path)
            return "lose"
        return None

    proxy.fault = lose_one
    library.store.commit(drawn_videos(drawn, 12, 14))
    assert lost
    require_unique(library, 12)


def test_a_bucket_that_is_read_only(library: Library, own: Path, proxy: Proxy, prvr: Prvr) -> None:
    proxy.fault = lambda method, path: "403" if method in WRITES else None
    place = ("--library", library.address)
    assert len(opened(library.address, library).search("sentence 0 1")) > 0
    assert prvr("library", "list", *place).status == 0
    assert prvr("library", "status", *place).status == 0
    with pytest.raises(LakeError, match="refused access: check the keys"):
        library.store.add_tags([1], ["new"])
    with pytest.raises(LakeError, match="refused access: check the keys"):
        library.remove(["/made up"])
    assert len(library.videos()) == 10


def test_adding_to_a_bucket_that_is_read_only(bucket: str, own: Path, proxy: Proxy, prvr: Prvr) -> None:
    place = ("--library", f"{bucket}/films")
    assert prvr("library", "add", own / "test0000.mp4", *place, "--encoder", "plain", "--rate", 2).status == 0
    proxy.fault = lambda method, path: "403" if method in WRITES else None
    prvr("library", "add", own, *place).refuses("the storage refused access: check the keys")
    proxy.fault = no_fault
    assert prvr("library", "add", own, *place).out.startswith("2 added, 1 unchanged")


def test_a_store_that_goes_away_and_returns(drawn: Library, library: Library, s3: S3Server) -> None:
    before = [(hit.video.path, hit.score) for hit in library.search("sentence 0 1 silent")]
    s3.stop()
    try:
        after = library.search("sentence 0 1 silent")  # from what was read before
        assert [(hit.video.path, hit.score) for hit in after] == before
        with pytest.raises(StoreAway, match="the storage does not answer: try again when it does"):
            open_library(library.address)
        with pytest.raises(StoreAway):
            library.store.commit(drawn_videos(drawn, 12, 13))
    finally:
        s3.start()
    library.store.commit(drawn_videos(drawn, 12, 13))
    assert len(library.search("sentence 0 1 silent", limit=50)) == len(before) + 1
    require_unique(library, 11)


def test_searches_do_not_wait_for_slow_storage(
    drawn: Library, library: Library, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version is read in the background. Until it is there, the one before is searched."""
    monkeypatch.setattr(newest, "PATIENCE", 0.05)
    searched = len(library.search("sentence 0 1 silent", limit=50))
    opened(library.address, drawn).store.commit(drawn_videos(drawn, 12, 13))
    answering, ended = threading.Event(), list[str]()

    def hang(method: str, path: str) -> str | None:
        return None if answering.wait(30) else ended.append(path)

    proxy.fault = hang
    assert len(library.search("sentence 0 1 silent", limit=50)) == searched
    assert ended == []  # no request has come to an end so far
    answering.set()
    proxy.fault = no_fault
    until(lambda: len(library.search("sentence 0 1 silent", limit=50)) > searched)
    library.store.commit(drawn_videos(drawn, 13, 14))  # what this process has changed is always there
    proxy.fault = lambda method, path: "slow" if "_versions" in path else None
    assert len(library.videos()) == len(library.snapshot().videos) == 12


def test_a_server_says_503_and_recovers(drawn: Library, library: Library, s3: S3Server) -> None:
    fresh = opened(library.address, drawn)
    with TestClient(create_app(fresh), base_url="http://localhost") as client:
        s3.stop()
        try:
            answer = client.post("/v1/search", json={"query": "sentence 0 1"})
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.json()["detail"] == "The storage of the library does not answer."
            assert client.get("/v1/health").status_code == 200
        finally:
            s3.start()
        assert client.post("/v1/search", json={"query": "sentence 0 1"}).status_code == 200


def test_a_server_says_409_where_waiting_does_not_help(drawn: Library, library: Library, proxy: Proxy) -> None:
    with TestClient(create_app(opened(library.address, drawn)), base_url="http://localhost") as client:
        proxy.fault = lambda method, path: "403"
        answer = client.post("/v1/search", json={"query": "sentence 0 1"})
        assert answer.status_code == 409
        assert "the storage refused access" in answer.json()["detail"]


def test_searches_over_a_bad_network_answer_as_ever_or_say_why(drawn: Library, library: Library, proxy: Proxy) -> None:
    expected = [(hit.video.path, hit.score) for hit in library.search("sentence 0 1 silent")]
    chance = random.Random(4)
    proxy.fault = lambda method, path: chance.choice(["503", "drop", "cut"]) if chance.random() < 0.2 else None
    good = 0
    for _ in range(4):
        try:
            found = opened(library.address, drawn).search("sentence 0 1 silent")
        except StoreAway:
            continue
        assert [(hit.video.path, hit.score) for hit in found] == expected
        good += 1
    assert good > 0


@pytest.mark.slow
def test_a_copy_over_a_bad_network_is_continued(drawn: Library, bucket: str, proxy: Proxy) -> None:
    proxy.fault = lambda method, path: "503" if method == "PUT" and "videos.lance" in path else None
    with pytest.raises(StoreAway):
        copy_library(drawn.address, f"{bucket}/copy")
    proxy.fault = no_fault
    assert copy_library(drawn.address, f"{bucket}/copy") == (118, 0)
    assert len(opened(f"{bucket}/copy", drawn).search(SENTENCE, limit=200)) > 0
