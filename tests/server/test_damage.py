"""A server whose library is damaged while it runs goes on, and tells it."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from prvr.library import Library
from prvr.library.copying import read_indexed
from prvr.library.store import shards
from tests.server.conftest import Served
from tests.server.test_serving import serving, stopped


def test_an_array_that_is_cut_while_it_is_mapped(served: Served) -> None:
    """Reading behind the end of a mapped file kills a process (SIGBUS)."""
    asked = {"query": "a red square", "limit": 50}
    assert served.client.post("/v1/search", json=asked).json()["hits"]
    assert served.client.get("/v1/health").json()["status"] == "ok"
    for file in served.library.folder.glob("shards/*/*.bin"):
        os.truncate(file, 0)
    answer = served.client.post("/v1/search", json=asked)
    assert answer.status_code >= 400
    assert str(served.library.folder) not in answer.text
    health = served.client.get("/v1/health")
    assert health.status_code == 200
    assert health.json()["status"] == "damaged"
    assert "prvr library verify" in health.json()["message"]
    assert served.client.get("/v1/videos").status_code == 200
    served.library.repair()
    assert served.client.post("/v1/search", json=asked).json()["hits"]
    assert served.client.get("/v1/health").json() | {"version": ""} == {"status": "ok", "message": "", "version": ""}


def enlarge(library: Library, videos: int) -> None:
    """Add copies of what is there, so that a shard is too large to be read when it is opened."""
    snapshot = library.snapshot()
    indexed = [read_indexed(library, snapshot, video) for video in library.videos("ok")]
    copies = []
    for number in range(videos):
        of = indexed[number % len(indexed)]
        copies.append(
            replace(of, video=replace(of.video, path=Path(f"/made up/{number}.mp4"), digest=f"made {number}"))
        )
    library.store.commit(copies)


@pytest.mark.slow
def test_a_large_shard_that_is_cut_while_a_server_reads_it(base: Path, tmp_path: Path) -> None:
    """Whatever a search meets, the server answers. When the file is restored, everything is found again."""
    shutil.copytree(base / "library", tmp_path / "library")
    library = Library.open(tmp_path / "library")
    enlarge(library, 3000)
    values = max(library.folder.glob("shards/*/local.values.bin"), key=lambda file: file.stat().st_size)
    content = values.read_bytes()
    assert sum(file.stat().st_size for file in values.parent.iterdir()) > shards._SMALL_BYTES
    asked, statuses, finished = {"query": "a red square", "limit": 50}, list[int](), threading.Event()
    with serving(tmp_path / "library") as (address, server):

        def keep_asking() -> None:
            with httpx.Client(base_url=address, timeout=60) as client:
                while not finished.is_set():
                    statuses.append(client.post("/v1/search", json=asked).status_code)

        threads = [threading.Thread(target=keep_asking) for _ in range(3)]
        for thread in threads:
            thread.start()
        with values.open("r+b") as file:
            for size in [*range(0, len(content), len(content) // 40), 0]:
                file.truncate(size)
                finished.wait(0.02)
                file.seek(0)
                file.write(content)
                file.flush()
                finished.wait(0.02)
        finished.set()
        for thread in threads:
            thread.join()
        assert server.poll() is None
        assert 200 in statuses
        assert {*statuses} <= {200, 409, 503}, {*statuses}
        answer = httpx.post(f"{address}/v1/search", json=asked, timeout=60).json()
        assert (len(answer["hits"]), httpx.get(f"{address}/v1/health").json()["status"]) == (50, "ok"), answer[
            "message"
        ]
        errors = stopped(server)
        assert "Traceback" not in errors, errors
