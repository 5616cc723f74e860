"""A real Ray cluster of several nodes that adds to a real S3 server; nodes and the command are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[cluster]"')

from prvr.cluster import ClusterIndexing
from prvr.library import AddProgress, Library, find_videos
from prvr.objects import newest_manifest, open_object_store, open_published, working_copy
from prvr.worlds import RenderedWorld
from tests.cluster.alike import requests, same_answers, same_library
from tests.cluster.nodes import Nodes, wait_until
from tests.objects.conftest import RATE
from tests.objects.s3 import S3

pytestmark = pytest.mark.slow
Machine = Callable[[str], None]


@pytest.fixture
def nodes(machine: Machine) -> Iterator[Nodes]:
    """Started in the environment of a machine of its own, which has keys to the storage."""
    import ray

    machine("nodes")
    made = Nodes(3)
    machine("first")
    yield made
    ray.shutdown()
    made.cluster.shutdown()


@pytest.fixture(scope="module")
def all_of_them(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    lib = Library.create(tmp_path_factory.mktemp("library") / "all", rate=RATE)
    lib.add([films.folder])
    return lib


@pytest.fixture
def bucket(server: S3, tmp_path: Path) -> str:
    return server.address(f"{tmp_path.name}/films.prvr")


def test_nodes_killed_half_way(
    nodes: Nodes, bucket: str, films: RenderedWorld, all_of_them: Library, machine: Machine
) -> None:
    killed: list[str] = []

    def kill(now: AddProgress) -> None:
        if len(killed) < 2 and now.video_seconds > 15 * (len(killed) + 1):
            killed.append(nodes.kill())

    with working_copy(bucket) as copy:
        lib = copy.open_or_create(rate=RATE)
        cluster = ClusterIndexing(nodes.address, encoders=2, copy=copy)
        report = cluster.add(lib, find_videos([films.folder]), progress=kill)
    assert len(killed) == 2
    assert len(report.added) == len(set(report.added)) == len(films.videos)
    machine("another")
    found = open_published(bucket)
    same_library(found, all_of_them)
    same_answers(found.search_many(requests()), all_of_them.search_many(requests()))
    assert open_object_store(bucket).list("pieces") == {}


def started(bucket: str, films: RenderedWorld, nodes: Nodes) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "prvr", "library", "add", str(films.folder), "--library", bucket]
    words += ["--rate", str(RATE), "--cluster", nodes.address]
    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))


@pytest.mark.parametrize("where", ["first", "second"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_command_killed_and_run_again(
    nodes: Nodes,
    bucket: str,
    films: RenderedWorld,
    all_of_them: Library,
    machine: Machine,
    where: str,
    how: signal.Signals,
) -> None:
    """On the same machine, and on another one that has nothing but the bucket."""
    process = started(bucket, films, nodes)
    store = open_object_store(bucket)
    wait_until(lambda: sum(name.endswith(".safetensors") for name in store.list("pieces")) >= 3)
    process.send_signal(how)
    assert process.wait(60) in (-signal.SIGKILL, 130)
    assert newest_manifest(store) is not None
    machine(where)
    second = started(bucket, films, nodes)
    out, err = second.communicate(timeout=240)
    assert second.returncode == 0, err
    assert b"added" in out
    assert open_object_store(bucket).list("pieces") == {}
    machine("another")
    same_library(open_published(bucket), all_of_them)


def test_two_commands_do_not_add_at_once(nodes: Nodes, bucket: str, films: RenderedWorld, machine: Machine) -> None:
    process = started(bucket, films, nodes)
    wait_until(lambda: bool(open_object_store(bucket).list("manifests")))
    machine("second")
    other = started(bucket, films, nodes)
    _, err = other.communicate(timeout=120)
    assert other.returncode == 1
    assert b"wait until it is done" in err
    assert process.wait(240) == 0
    assert len(open_published(bucket).videos("ok")) == len(films.videos)
