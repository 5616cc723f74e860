"""A bucket, and a real Ray cluster of one node: films are added while a worker is killed, and a replica answers (slow).

`tests/lake/test_add_on_ray.py` and `tests/server/test_on_ray.py` do more of this (marked *slow*).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[scale]"')

import ray

from prvr.lake import add_on_cluster, create_library
from prvr.library import AddProgress, LibrarySettings, find_videos
from prvr.processes import python_command
from prvr.worlds import RenderedWorld
from tests.lake.conftest import SENTENCE
from tests.lake.nodes import Nodes, require_same
from tests.s3 import KEYS, S3Server

SETTINGS = LibrarySettings("plain", rate=1.0)


@pytest.fixture(scope="module")
def node(server: S3Server) -> Iterator[Nodes]:
    """A node with two CPUs whose workers have keys to the bucket."""
    if not server.running:
        server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1"}.items():
            patch.setenv(name, value)
        made = Nodes(0, head_cpus=2)
        yield made
        ray.shutdown()
        made.shutdown()


def test_a_bucket_is_filled_by_a_cluster(node: Nodes, bucket: str, films: RenderedWorld, tmp_path: Path) -> None:
    """One worker is killed on the way. Nothing is lost or doubled."""
    folder = tmp_path / "films"
    folder.mkdir()
    for path in sorted(films.videos.values())[:8]:
        shutil.copy2(path, folder)
    alone = create_library(str(tmp_path / "alone.lance"), SETTINGS)
    alone.add([folder])
    library = create_library(f"{bucket}/films", SETTINGS)
    killed: list[int] = []
    at_sigterm = signal.getsignal(signal.SIGTERM)

    def kill(now: AddProgress) -> None:
        if not killed and now.files_done >= 2:
            killed.extend(node.workers("ray::IndexWorker")[:1])
            os.kill(killed[0], signal.SIGKILL)

    report = add_on_cluster(library, library.adder(progress=kill), find_videos([folder]), node.address)
    ray.shutdown()
    assert killed
    assert signal.getsignal(signal.SIGTERM) == at_sigterm  # not Ray's, which ends a process with the status 15
    assert len(report.added) == len({*report.added}) == 8
    require_same(library, alone)


@pytest.mark.slow
def test_a_bucket_is_served_by_a_cluster(node: Nodes, bucket: str, films: RenderedWorld) -> None:
    """A replica on the cluster answers a search as a library on this machine does."""
    library = create_library(f"{bucket}/films", SETTINGS)
    library.add(sorted(films.videos.values())[:8])
    words = ["serve", library.address, "--port", "0", "--cluster", node.address]
    process = subprocess.Popen(python_command("prvr", *words), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.findall(r"http://127.0.0.1:\d+/", process.stdout.readline())[0]
        hits = httpx.post(f"{address}v1/search", json={"query": SENTENCE}, timeout=60).json()["hits"]
        found = [(hit["video"]["name"], pytest.approx(hit["score"], abs=1e-3)) for hit in hits]
        assert [(hit.video.path.name, hit.score) for hit in library.search(SENTENCE)] == found
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
