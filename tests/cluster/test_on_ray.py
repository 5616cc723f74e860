"""On a real Ray cluster of several nodes on this machine: nodes, workers, shards and drivers are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from prvr.library import AddProgress, AddReport, Library, SearchOptions
from prvr.media.render import RenderedWorld
from prvr.server import create_app
from tests.cluster.alike import OPTIONS, SENTENCES, same_answers, same_library
from tests.cluster.conftest import RATE

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[cluster]"')

from prvr.cluster import ClusterIndexing, ClusterSearcher, Shards, connected, start_shards, stop_shards
from prvr.cluster.pieces import PIECES

EVERYTHING = SearchOptions(limit=100)
pytestmark = pytest.mark.slow


class Nodes:
    """A head without work, and nodes that come and go."""

    def __init__(self, nodes: int):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "object_store_memory": 200 << 20, "include_dashboard": False},
        )
        self.nodes = [self.add() for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=200 << 20)

    def kill(self) -> str:
        """Kill a node with everything on it; returns its id."""
        node = self.nodes.pop()
        self.cluster.remove_node(node, allow_graceful=False)
        return str(node.node_id)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    import ray

    made = Nodes(3)
    yield made
    ray.shutdown()
    made.cluster.shutdown()


def tagged(lib: Library, films: RenderedWorld, work: ClusterIndexing, **given: Any) -> AddReport:
    return lib.add([films.folder], tags=["rendered"], work=work, **given)


def test_a_cluster_makes_the_library_of_one_machine(
    nodes: Nodes, films: RenderedWorld, whole: Library, library: Library
) -> None:
    told: list[AddProgress] = []
    report = tagged(library, films, ClusterIndexing(nodes.address), progress=told.append)
    assert sorted(report.added) == sorted(films.videos.values())
    assert [path.name for path in report.failed] == ["broken.mp4"]
    assert told[-1].bytes_done == told[-1].bytes
    assert report.video_seconds == pytest.approx(sum(v.duration or 0 for v in whole.videos("ok")), rel=0.1)
    same_library(library, whole)
    same_answers(library.search_many(SENTENCES, EVERYTHING), whole.search_many(SENTENCES, EVERYTHING))
    again = tagged(library, films, ClusterIndexing(nodes.address))
    assert len(again.unchanged) == len(films.videos)
    assert not again.added


@pytest.mark.parametrize("lost", [1, 2])
def test_nodes_killed_half_way(nodes: Nodes, films: RenderedWorld, whole: Library, library: Library, lost: int) -> None:
    killed: list[str] = []

    def kill(now: AddProgress) -> None:
        if len(killed) < lost and now.video_seconds > 15 * (len(killed) + 1):
            killed.append(nodes.kill())

    report = tagged(library, films, ClusterIndexing(nodes.address, encoders=2), progress=kill)
    assert len(killed) == lost
    assert len(report.added) == len(set(report.added)) == len(films.videos)
    same_library(library, whole)


def test_workers_killed_half_way(nodes: Nodes, films: RenderedWorld, whole: Library, library: Library) -> None:
    """Those that decode, encode and finish, by their process number."""
    killed: list[int] = []

    def kill(now: AddProgress) -> None:
        if now.video_seconds > 10 * (len(killed) + 1) and len(killed) < 4:
            names = ("ray::MapWorker", "ray::Finish", "ray::FlatMap", "ray::MapWorker")
            found = processes_of(nodes, names[len(killed)])
            killed.append(found[0] if found else 0)
            if found:
                os.kill(found[0], signal.SIGKILL)

    tagged(library, films, ClusterIndexing(nodes.address), progress=kill)
    assert sum(number > 0 for number in killed) >= 2
    same_library(library, whole)


def processes_of(nodes: Nodes, name: str) -> list[int]:
    """Workers that this cluster's nodes started and that do what ``name`` says."""
    everywhere = [nodes.cluster.head_node, *nodes.nodes]
    raylets = {process.process.pid for node in everywhere for process in node.all_processes["raylet"]}
    found = []
    for place in Path("/proc").iterdir():
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in raylets and (place / "cmdline").read_bytes().startswith(name.encode()):
                found.append(int(place.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def started(lib: Library, films: RenderedWorld, nodes: Nodes) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "prvr", "library", "add", str(films.folder), "--library", str(lib.folder)]
    words += ["--tags", "rendered", "--rate", str(RATE), "--cluster", nodes.address]
    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_whoever_commits_is_killed(
    nodes: Nodes, films: RenderedWorld, whole: Library, library: Library, how: signal.Signals
) -> None:
    """The command stops half way; the same command goes on, and uses the pieces that lie there."""
    process = started(library, films, nodes)
    pieces = library.folder / PIECES
    wait_until(lambda: len(library.videos()) >= 4 or len(list(pieces.glob("*.safetensors"))) >= 4)
    process.send_signal(how)
    assert process.wait(60) in (-signal.SIGKILL, 130)
    assert library.verify().ok
    before = len(library.videos())
    assert before < 17
    second = started(library, films, nodes)
    out, err = second.communicate(timeout=240)
    assert second.returncode == 1, err  # one file is no video
    assert b"16 added" in out or b"unchanged" in out
    same_library(library, whole)


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


def test_two_clusters_do_not_add_at_once(nodes: Nodes, films: RenderedWorld, library: Library) -> None:
    process = started(library, films, nodes)
    wait_until(lambda: (library.folder / PIECES).exists())
    other = started(library, films, nodes)
    _, err = other.communicate(timeout=120)
    assert other.returncode == 1
    assert b"another" in err
    assert process.wait(240) == 1
    assert len(library.videos("ok")) == len(films.videos)


# -- searching --------------------------------------------------------------------------------------------------------


def test_shards_answer_as_one_machine_while_some_are_killed(nodes: Nodes, whole: Library) -> None:
    import ray

    with connected(nodes.address):
        expected = [whole.search_many(SENTENCES, options) for options in OPTIONS]
        actors = start_shards(ray, whole.folder, 3, 2)
        asking = ClusterSearcher(whole, Shards(ray, actors))
        for options, full in zip(OPTIONS, expected, strict=True):
            same_answers(asking.search_many(SENTENCES, options), full)
        done = threading.Event()

        def kill() -> None:
            for row in (0, 1, 2, 1):
                time.sleep(0.7)
                ray.kill(actors[row][row % 2], no_restart=False)
            done.set()

        killer = threading.Thread(target=kill)
        killer.start()
        while not done.is_set():
            found = asking.search_many(SENTENCES, EVERYTHING)
            same_answers(found, expected[0])
            assert not any(each.missing for each in found)
        killer.join()
        nodes.kill()  # with the shards on it
        wait_until(lambda: not any(r.missing for r in asking.search_many(SENTENCES, EVERYTHING)))
        same_answers(asking.search_many(SENTENCES, EVERYTHING), expected[0])
        stop_shards(ray, whole.folder)


def test_a_stopped_replica_is_not_waited_for(nodes: Nodes, whole: Library) -> None:
    """SIGSTOP: it neither answers nor fails. The limit is ten minutes; the other replica answers long before."""
    import ray

    with connected(nodes.address):
        expected = whole.search_many(SENTENCES, EVERYTHING)
        asking = ClusterSearcher(whole, Shards(ray, start_shards(ray, whole.folder, 2, 2), patience=600))
        for _ in range(10):
            same_answers(asking.search_many(SENTENCES, EVERYTHING), expected)
        stopped, hedged = processes_of(nodes, "ray::Shard")[0], asking.shards.hedged
        os.kill(stopped, signal.SIGSTOP)
        try:
            for _ in range(4):  # it is its turn once at least
                found = asking.search_many(SENTENCES, EVERYTHING)
                same_answers(found, expected)
                assert not any(each.missing for each in found)
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert asking.shards.hedged > hedged  # it was asked, and another answered for it
        wait_until(lambda: not any(replica.late for row in asking.shards.replicas for replica in row))
        same_answers(asking.search_many(SENTENCES, EVERYTHING), expected)
        stop_shards(ray, whole.folder)


def test_a_shard_without_replica_is_reported_and_comes_back(nodes: Nodes, whole: Library) -> None:
    import ray

    with connected(nodes.address):
        expected = whole.search_many(SENTENCES, EVERYTHING)
        actors = start_shards(ray, whole.folder, 3, 1)
        asking = ClusterSearcher(whole, Shards(ray, actors))
        same_answers(asking.search_many(SENTENCES, EVERYTHING), expected)
        ray.kill(actors[1][0], no_restart=False)
        partial, began = 0, time.monotonic()
        while time.monotonic() - began < 60:
            for found, full in zip(asking.search_many(SENTENCES, EVERYTHING), expected, strict=True):
                if found.missing is None:
                    same_answers([found], [full])
                else:
                    partial += 1
                    assert found.missing.shards == (1,)
                    assert found.total == 16 - found.missing.videos
            if partial and found.missing is None:
                break
        assert partial
        same_answers(asking.search_many(SENTENCES, EVERYTHING), expected)
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

            os.kill(processes_of(nodes, "ray::Shard")[0], signal.SIGKILL)
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
        assert not processes_of(nodes, "ray::Shard")
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
