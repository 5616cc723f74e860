"""A server whose library is damaged while it runs goes on, and tells it."""

from __future__ import annotations

import os

from tests.server.conftest import Served


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
