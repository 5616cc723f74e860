"""The commands with a lake: the same words as with a folder, and one sentence where something is wrong."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from prvr.cli import main
from prvr.lake import index, open_library
from prvr.lake.tables import LakeError, StoreAway, Table, explained
from prvr.library import Library
from prvr.media import MissingExtra
from prvr.server import create_app
from tests.lake.conftest import SENTENCE, Said, finish, start
from tests.s3 import S3Server

Prvr = Callable[..., Said]
# Lance reads and writes both in the same way: adding to a bucket stands for the rest in the ordinary suite.
ON_A_DISK = pytest.mark.parametrize("address", ["disk", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)


def test_add_list_search_verify_and_remove(address: str, own: Path, prvr: Prvr) -> None:
    place = ("--library", address)
    added = prvr("library", "add", own, *place, "--encoder", "plain", "--rate", 2, "--tags", "mine")
    assert (added.status, added.out.split(" (")[0]) == (0, "3 added"), added.err
    assert f": {address}" in added.out
    assert prvr("library", "add", own, *place).out == f"0 added, 3 unchanged: {address} now holds 3 videos\n"
    prvr("library", "add", own, *place, "--encoder", "plain", "--rate", 5).refuses("was created with rate 2.0, not 5.0")
    listed = json.loads(prvr("library", "list", *place, "--json").out)
    assert [(row["id"], row["state"], row["tags"]) for row in listed] == [(n, "ok", ["mine"]) for n in (1, 2, 3)]
    assert "3 videos, " in prvr("library", "status", *place).out
    assert json.loads(prvr("library", "status", *place, "--json").out)["bytes"] > 10_000
    hits = json.loads(prvr("search", SENTENCE, *place, "--json").out)["hits"]
    assert len(hits) == 3
    assert prvr("library", "verify", *place).out == "3 files checked, everything is complete\n"
    assert "nothing to index" in prvr("library", "index", *place).out
    assert prvr("library", "remove", own / "test0000.mp4", *place).out == "removed 1 video\n"
    prvr("library", "remove", "nowhere.mp4", *place).refuses("is not in the library")
    assert "no videos" not in prvr("library", "list", *place).out


def test_index_prints_the_recall(lake: Library, prvr: Prvr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FEWEST_TOKENS", 10)
    lake.index()
    assert lake.store.has_index()
    monkeypatch.setattr("prvr.cli.library.open_library", lambda address: lake)
    said = prvr("library", "index", "--library", lake.address)
    assert "frames: the candidates hold" in said.out, said
    for video in lake.videos():  # drawn videos have no files
        assert not video.path.exists()
    assert "approximate search, frames: finds" in prvr("library", "verify", "--library", lake.address).out


@ON_A_DISK
def test_copy(address: str, own: Path, tmp_path: Path, prvr: Prvr) -> None:
    folder = tmp_path / "library"
    assert prvr("library", "add", own, "--library", folder, "--encoder", "plain", "--rate", 2).status == 0
    assert prvr("library", "copy", folder, address).out == f"3 copied, 0 unchanged: {address}\n"
    assert prvr("library", "copy", folder, address).out == f"0 copied, 3 unchanged: {address}\n"
    prvr("library", "add", own, "--library", folder, "--tags", "new")  # known videos with a new tag
    assert prvr("library", "copy", folder, address).status == 0
    assert all(video.tags == ("new",) for video in open_library(address).videos())
    assert prvr("library", "copy", address, tmp_path / "back").out.startswith("3 copied")
    prvr("library", "add", own, "--library", tmp_path / "back", "--tags", "mine")  # the copy may have more tags
    assert prvr("library", "copy", address, tmp_path / "back").out.startswith("0 copied, 3 unchanged")
    assert prvr("library", "verify", "--library", tmp_path / "back").status == 0
    other = tmp_path / "other.lance"
    assert prvr("library", "add", own, "--library", other, "--encoder", "plain", "--rate", 1).status == 0
    prvr("library", "copy", folder, other).refuses("choose another place for the copy")


@ON_A_DISK
def test_a_running_server_follows_a_lake_that_is_reindexed(address: str, own: Path, prvr: Prvr) -> None:
    assert (
        prvr("library", "add", own, "--library", address, "--encoder", "plain", "--rate", 2, "--tags", "a").status == 0
    )
    with TestClient(create_app(open_library(address)), base_url="http://localhost") as client:
        before = client.post("/v1/search", json={"query": SENTENCE}).json()["hits"]
        said = prvr("library", "reindex", "--library", address, "--rate", 4)
        assert said.out.startswith("3 videos encoded anew"), said
        after = client.post("/v1/search", json={"query": SENTENCE}).json()["hits"]
        assert [hit["score"] for hit in after] != [hit["score"] for hit in before]
        assert {hit["video"]["id"] for hit in after} == {hit["video"]["id"] for hit in before}
        assert "(4 per second" in prvr("library", "status", "--library", address).out
        assert prvr("library", "verify", "--library", address).status == 0
        assert prvr("library", "remove", own / "test0000.mp4", "--library", address).status == 0
        assert (
            client.post("/v1/search", json={"query": SENTENCE, "filters": {"tags": ["a"]}}).json()["videos_searched"]
            == 2
        )
        assert prvr("library", "reindex", "--library", address, "--rate", 2).status == 0  # back, below that again
        again = client.post("/v1/search", json={"query": SENTENCE}).json()["hits"]
    old = {hit["video"]["id"]: hit["score"] for hit in before}
    assert [hit["score"] for hit in again] == pytest.approx([old[hit["video"]["id"]] for hit in again], abs=1e-5)


@ON_A_DISK
def test_serve_in_a_test_client(address: str, own: Path, prvr: Prvr) -> None:
    assert prvr("library", "add", own, "--library", address, "--encoder", "plain", "--rate", 2).status == 0
    with TestClient(create_app(open_library(address)), base_url="http://localhost") as client:
        assert client.get("/v1/library").json()["videos"] == 3
        found = client.post("/v1/search", json={"query": SENTENCE}).json()
        assert len(found["hits"]) == 3
        assert client.get(found["hits"][0]["evidence_url"], params={"query": SENTENCE}).status_code == 200
        other = shutil.copy(own / "test0000.mp4", own / "new.mp4")
        assert prvr("library", "add", other, "--library", address).status == 0
        found = client.post("/v1/search", json={"query": SENTENCE}).json()
        assert found["videos_searched"] == 4  # without a restart
        assert sorted(hit["also_at"] for hit in found["hits"]) == [[], [], ["new.mp4"]]


@pytest.mark.slow
def test_serve_as_a_process(bucket: str, own: Path, prvr: Prvr) -> None:
    address = f"{bucket}/films"
    assert prvr("library", "add", own, "--library", address, "--encoder", "plain", "--rate", 2).status == 0
    process = start("serve", address, "--port", 0, "--allow-root", own)
    try:
        assert process.stdout is not None
        page = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        with httpx.Client(base_url=page, timeout=120, transport=httpx.HTTPTransport(retries=20)) as client:
            assert len(client.post("v1/search", json={"query": SENTENCE}).json()["hits"]) == 3
            shutil.copy(own / "test0000.mp4", own / "new.mp4")
            job = client.post("v1/videos", json={"root": "own", "path": ""}).json()
            with client.stream("GET", f"v1/jobs/{job['id']}/events") as events:
                assert any('"done"' in line for line in events.iter_lines())
            assert open_library(address).status().videos == 4
    finally:
        process.terminate()
    assert "Traceback" not in finish(process).err


@pytest.mark.parametrize("command", [("library", "list"), ("library", "status"), ("search", "red"), ("serve",)])
def test_where_there_is_no_library(command: tuple[str, ...], bucket: str, tmp_path: Path, prvr: Prvr) -> None:
    for place in (f"{bucket}/nothing", tmp_path / "nothing.lance"):
        words = (place,) if command == ("serve",) else ("--library", place)
        prvr(*command, *words).refuses(f"there is no library at {place}: `prvr library add --library {place} VIDEOS…`")
    assert not (tmp_path / "nothing.lance").exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://host/films", "this is no address of a library: write s3://"),
        ("s3:///films", "this is no address of a library: write s3://"),
        ("s3://key:secret@bucket/films", "must not contain keys"),
        ("s3://no-such-bucket/films", "there is no such bucket: create it"),
    ],
)
def test_wrong_addresses(address: str, said: str, s3: S3Server, own: Path, prvr: Prvr) -> None:
    for words in (("library", "list"), ("library", "add", own)):
        found = prvr(*words, "--library", address)
        found.refuses(said)
        assert "secret" not in found.err


def test_wrong_keys(bucket: str, s3: S3Server, own: Path, prvr: Prvr) -> None:
    s3.require_keys()
    try:
        prvr("library", "list", "--library", f"{bucket}/films").refuses("the storage refused access: check the keys")
        prvr("library", "add", own, "--library", f"{bucket}/films", "--encoder", "plain").refuses(
            "the storage refused access"
        )
    finally:
        s3.require_keys(False)


def test_without_lance_it_names_the_install(lake: Library, prvr: Prvr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    prvr("library", "list", "--library", lake.address).refuses('pip install "prvr[scale]"')


def test_an_address_that_holds_something_else(own: Path, tmp_path: Path, prvr: Prvr) -> None:
    (tmp_path / "file.lance").write_text("something")
    (tmp_path / "folder.lance").mkdir()
    (tmp_path / "folder.lance" / "letter.txt").write_text("Dear")
    prvr("library", "add", own, "--library", tmp_path / "folder.lance", "--encoder", "plain").refuses(
        "holds something else"
    )
    prvr("library", "add", own, "--library", tmp_path / "file.lance", "--encoder", "plain").refuses(
        "this is no address of a library"
    )


def test_a_newer_format_is_named(lake: Library, prvr: Prvr) -> None:
    settings = Table(lake.address, "settings")
    rows = settings.open().to_table().to_pylist()  # type: ignore[union-attr]
    record = json.loads(rows[0]["content"]) | {"lake": 99}
    shutil.rmtree(settings.uri)
    settings.create(
        pa.table({"name": ["library.json"], "content": pa.array([json.dumps(record).encode()], pa.binary())})
    )
    prvr("library", "list", "--library", lake.address).refuses("was created by a newer prvr")


@pytest.mark.parametrize("text", ["half", "", "1e999"])
def test_a_cache_of_no_size_is_an_error(text: str, lake: Library, prvr: Prvr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRVR_LAKE_CACHE", text)
    prvr("library", "list", "--library", lake.address).refuses("PRVR_LAKE_CACHE is a number of megabytes")


def test_names_do_not_decide_what_an_error_means(own: Path, tmp_path: Path) -> None:
    """Words of addresses and files, such as 403 or credentials, are no part of the message."""
    place = tmp_path / "credential 403 timeout" / "500 quota.lance"
    assert main(["library", "add", str(own), "--library", str(place), "--encoder", "plain", "--rate", "2"]) == 0
    with pytest.raises(LakeError, match="a part of the library is missing"), explained(str(place)):
        raise OSError(f"LanceError(IO): Not found: {place}/frames.lance/data/a-503.lance, /home/a/b.rs:1:2")


@pytest.mark.parametrize("words", ["Client error with status 429 Too Many Requests", "LanceError(IO): Out of memory"])
def test_what_passes_is_no_damage(words: str) -> None:
    with pytest.raises(StoreAway, match="try again"), explained("s3://bucket/films"):
        raise OSError(words)


def test_a_copy_does_not_write_into_other_things(lake: Library, tmp_path: Path, prvr: Prvr) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    prvr("library", "copy", lake.address, tmp_path / "mine").refuses("holds something else")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("package", ["lance", "cachetools"])
def test_a_missing_package_is_named_with_its_extra(
    lake: Library, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r'pip install "prvr\[scale\]"'):
        open_library(lake.address)
