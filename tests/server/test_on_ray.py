"""A lake served by replicas on a real Ray cluster on this machine; a replica is killed while requests run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[scale]"')
pytest.importorskip("lance", reason='lakes need Lance: pip install "prvr[scale]"')

from prvr.lake import create_library
from prvr.library import Library, LibrarySettings
from prvr.processes import python_command
from prvr.server import ServerError, ServerOptions, create_app, serve_on_cluster
from prvr.worlds import RenderedWorld
from tests.lake.nodes import Nodes, wait_until

SENTENCES = ("a red square moves to the left", "a green circle over sand", "something blue falls", "a yellow star")


@pytest.fixture(scope="module")
def lake(world: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = create_library(str(tmp_path_factory.mktemp("lake") / "films.lance"), LibrarySettings("plain", rate=1.0))
    library.add([world.folder])
    return library


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes(2)
    yield made
    made.shutdown()


def search(client: Any) -> list[dict[str, Any]]:
    """The answers to all sentences. A request that fails is sent once more."""
    found = []
    for sentence in SENTENCES:
        body = {"query": sentence, "limit": 20}
        answer = client.post("/v1/search", json=body)
        if answer.status_code != 200:
            answer = client.post("/v1/search", json=body)
        assert answer.status_code == 200, answer.text
        found.append({name: value for name, value in answer.json().items() if name != "seconds"})
    return found


def scores(answers: list[dict[str, Any]]) -> list[dict[int, float]]:
    return [{hit["video"]["id"]: hit["score"] for hit in answer["hits"]} for answer in answers]


@pytest.mark.slow
def test_replicas_answer_as_one_machine_also_while_one_is_killed(nodes: Nodes, lake: Library) -> None:
    with TestClient(create_app(lake), base_url="http://localhost") as client:
        expected = search(client)
    words = ["serve", lake.address, "--port", "0", "--cluster", nodes.address, "--replicas", "2"]
    process = subprocess.Popen(python_command("prvr", *words), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://127.0.0.1:\d+/", line)
        assert address is not None, line
        base = address[0]
        with httpx.Client(base_url=base, timeout=60) as client:
            assert search(client) == expected
            assert client.get("/").status_code == 200
            assert client.get("/v1/health", headers={"Host": "evil.example"}).status_code == 421  # its guard is there
        wait_until(lambda: len(nodes.workers("ray::ServeReplica")) == 2)  # one is enough to answer
        replicas = nodes.workers("ray::ServeReplica")
        answers: list[list[dict[str, Any]]] = []
        problems: list[BaseException] = []

        def ask() -> None:
            try:
                with httpx.Client(base_url=base, timeout=60) as client:
                    answers.extend(search(client) for _ in range(25))
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answers) > 8)
        os.kill(replicas[0], signal.SIGKILL)
        for thread in threads:
            thread.join()
        assert problems == []
        assert len(answers) == 100
        for answer in answers:  # scored together with others, whose number changes the last digits
            assert scores(answer) == [pytest.approx(each, abs=1e-3) for each in scores(expected)]
        wait_until(lambda: len({*nodes.workers("ray::ServeReplica")} - {replicas[0]}) == 2)  # it is replaced
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        wait_until(lambda: not nodes.workers("ray::ServeReplica"))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def refused(library: Library, message: str, replicas: int = 2, **options: Any) -> None:
    with pytest.raises(ServerError, match=message):
        serve_on_cluster(library, ServerOptions(port=0, **options), "local", replicas, print)


def test_what_a_cluster_cannot_serve(lake: Library, base: Path, tmp_path: Path) -> None:
    refused(Library.open(base / "library"), "prvr library copy")
    refused(lake, "only one replica can add videos", roots=(tmp_path,))
    refused(lake, "at least one replica", replicas=0)
