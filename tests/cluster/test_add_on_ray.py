"""Adding on a real Ray cluster of several nodes on this machine: nodes, workers and drivers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from prvr.library import AddProgress, AddReport, Library, find_videos
from prvr.worlds import RenderedWorld
from tests.cluster.alike import requests, same_answers, same_library
from tests.cluster.conftest import RATE
from tests.cluster.nodes import Nodes, processes_of, wait_until

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[cluster]"')

from prvr.cluster import ClusterIndexing
from prvr.cluster.pieces import PIECES

pytestmark = pytest.mark.slow


def add(library: Library, films: RenderedWorld, cluster: ClusterIndexing, **options: Any) -> AddReport:
    return cluster.add(library, find_videos([films.folder]), tags=["rendered"], **options)


def test_a_cluster_makes_the_library_of_one_machine(
    nodes: Nodes, films: RenderedWorld, whole: Library, library: Library
) -> None:
    shown: list[AddProgress] = []
    report = add(library, films, ClusterIndexing(nodes.address), progress=shown.append)
    assert sorted(report.added) == sorted(films.videos.values())
    assert [path.name for path in report.failed] == ["broken.mp4"]
    assert shown[-1].bytes_done == shown[-1].bytes
    assert report.video_seconds == pytest.approx(sum(v.duration or 0 for v in whole.videos("ok")), rel=0.1)
    same_library(library, whole)
    same_answers(library.search_many(requests()), whole.search_many(requests()))
    again = add(library, films, ClusterIndexing(nodes.address))
    assert len(again.unchanged) == len(films.videos)
    assert not again.added


@pytest.mark.parametrize("lost", [1, 2])
def test_nodes_killed_half_way(nodes: Nodes, films: RenderedWorld, whole: Library, library: Library, lost: int) -> None:
    killed: list[str] = []

    def kill(now: AddProgress) -> None:
        if len(killed) < lost and now.video_seconds > 15 * (len(killed) + 1):
            killed.append(nodes.kill())

    report = add(library, films, ClusterIndexing(nodes.address, encoders=2), progress=kill)
    assert len(killed) == lost
    assert len(report.added) == len(set(report.added)) == len(films.videos)
    same_library(library, whole)


def test_workers_killed_half_way(nodes: Nodes, films: RenderedWorld, whole: Library, library: Library) -> None:
    """Those that decode, encode and finish, by their process number."""
    killed: list[int] = []

    def kill(now: AddProgress) -> None:
        if now.video_seconds > 10 * (len(killed) + 1) and len(killed) < 4:
            names = ("ray::MapWorker", "ray::SectionWriter", "ray::FlatMap", "ray::MapWorker")
            found = processes_of(nodes, names[len(killed)])
            killed.append(found[0] if found else 0)
            if found:
                os.kill(found[0], signal.SIGKILL)

    add(library, films, ClusterIndexing(nodes.address), progress=kill)
    assert sum(number > 0 for number in killed) >= 2
    same_library(library, whole)


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


def test_two_clusters_do_not_add_at_once(nodes: Nodes, films: RenderedWorld, library: Library) -> None:
    process = started(library, films, nodes)
    wait_until(lambda: (library.folder / PIECES).exists())
    other = started(library, films, nodes)
    _, err = other.communicate(timeout=120)
    assert other.returncode == 1
    assert b"another" in err
    assert process.wait(240) == 1
    assert len(library.videos("ok")) == len(films.videos)
