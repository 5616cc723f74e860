"""Searching on a real Ray cluster of several nodes on this machine: shards, nodes and the app are killed or stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from prvr.library import Library
from prvr.server import create_app
from tests.cluster.alike import OPTIONS, SENTENCES, requests, same_answers
from tests.cluster.nodes import Nodes, processes_of, wait_until

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[cluster]"')

from prvr.cluster import ClusterSearcher, Shards, connected, start_shards, stop_shards

pytestmark = pytest.mark.slow


def test_shards_answer_as_one_machine_while_some_are_killed(nodes: Nodes, whole: Library) -> None:
    import ray

    with connected(nodes.address):
        expected = [whole.search_many(requests(**options)) for options in OPTIONS]
        actors = start_shards(ray, whole.folder, 3, 2)
        asking = ClusterSearcher(whole, Shards(ray, actors))
        for options, full in zip(OPTIONS, expected, strict=True):
            same_answers(asking.search_many(requests(**options)), full)
        done = threading.Event()

        def kill() -> None:
            for row in (0, 1, 2, 1):
                time.sleep(0.7)
                ray.kill(actors[row][row % 2], no_restart=False)
            done.set()

        killer = threading.Thread(target=kill)
        killer.start()
        while not done.is_set():
            found = asking.search_many(requests())
            same_answers(found, expected[0])
            assert not any(each.missing for each in found)
        killer.join()
        nodes.kill()  # with the shards on it
        wait_until(lambda: not any(r.missing for r in asking.search_many(requests())))
        same_answers(asking.search_many(requests()), expected[0])
        stop_shards(ray, whole.folder)


def test_a_stopped_replica_is_not_waited_for(nodes: Nodes, whole: Library) -> None:
    """SIGSTOP: it neither answers nor fails. The limit is ten minutes; the other replica answers long before."""
    import ray

    with connected(nodes.address):
        expected = whole.search_many(requests())
        asking = ClusterSearcher(whole, Shards(ray, start_shards(ray, whole.folder, 2, 2), patience=600))
        for _ in range(10):
            same_answers(asking.search_many(requests()), expected)
        stopped, hedged = processes_of(nodes, "ray::ShardActor")[0], asking.shards.hedged
        os.kill(stopped, signal.SIGSTOP)
        try:
            for _ in range(4):  # it is its turn once at least
                found = asking.search_many(requests())
                same_answers(found, expected)
                assert not any(each.missing for each in found)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert asking.shards.hedged > hedged  # it was asked, and another answered for it
        wait_until(lambda: not any(replica.late for row in asking.shards.replicas for replica in row))
        same_answers(asking.search_many(requests()), expected)
        stop_shards(ray, whole.folder)


def test_a_shard_without_replica_is_reported_and_comes_back(nodes: Nodes, whole: Library) -> None:
    import ray

    with connected(nodes.address):
        expected = whole.search_many(requests())
        actors = start_shards(ray, whole.folder, 3, 1)
        asking = ClusterSearcher(whole, Shards(ray, actors))
        same_answers(asking.search_many(requests()), expected)
        ray.kill(actors[1][0], no_restart=False)
        partial, began = 0, time.monotonic()
        while time.monotonic() - began < 60:
            for found, full in zip(asking.search_many(requests()), expected, strict=True):
                if found.missing is None:
                    same_answers([found], [full])
                else:
                    partial += 1
                    assert found.missing.shards == (1,)
                    assert found.total == 16 - found.missing.videos
            if partial and found.missing is None:
                break
        assert partial
        same_answers(asking.search_many(requests()), expected)
        stop_shards(ray, whole.folder)


def test_served_by_ray_serve(nodes: Nodes, whole: Library) -> None:
    """Over HTTP: the answers of one machine; a killed shard is told; a killed app and a killed shard come back."""
    words = [sys.executable, "-m", "prvr", "serve", str(whole.folder), "--port", "0", "--cluster", nodes.address]
    process = subprocess.Popen([*words, "--shards", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://127.0.0.1:\d+/", line)
        assert address is not None, line
        with httpx.Client(base_url=address[0], timeout=60) as client:
            expected = _alone(whole)
            assert _searched(client) == expected
            assert client.get("/").status_code == 200
            assert client.get("/v1/health", headers={"Host": "evil.example"}).status_code == 421  # its guard is there
            evidence = expected[0]["hits"][0]["evidence_url"]
            assert client.get(evidence).json()["routed"]

            os.kill(processes_of(nodes, "ray::ShardActor")[0], signal.SIGKILL)
            partial = _searched(client)
            assert all(answer["partial"] for answer in partial)
            assert all(0 < answer["missing"]["share"] < 1 for answer in partial)
            wait_until(lambda: not _searched(client)[0]["partial"])
            assert _searched(client) == expected

            heads = processes_of(nodes, "ray::ServeReplica")
            os.kill(heads[0], signal.SIGKILL)
            wait_until(lambda: _answers(client))
            assert _searched(client) == expected
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not processes_of(nodes, "ray::ShardActor")
    finally:
        process.kill()
        process.wait()


def _searched(client: httpx.Client) -> list[dict[str, Any]]:
    answers = [client.post("/v1/search", json={"query": sentence, "limit": 20}) for sentence in SENTENCES]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    return [{name: value for name, value in answer.json().items() if name != "seconds"} for answer in answers]


def _answers(client: httpx.Client) -> bool:
    try:
        return client.post("/v1/search", json={"query": SENTENCES[0]}).status_code == 200
    except httpx.HTTPError:
        return False


def _alone(lib: Library) -> list[dict[str, Any]]:
    with TestClient(create_app(lib), base_url="http://localhost") as client:
        return _searched(client)
