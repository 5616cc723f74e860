"""Adding on a real Ray cluster of several nodes on this machine: workers, nodes and commands are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[scale]"')
pytest.importorskip("lance", reason='lakes need Lance: pip install "prvr[scale]"')

from prvr.lake import add_on_cluster, create_library, open_library
from prvr.library import AddProgress, AddReport, Library, LibrarySettings, find_videos
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.lake.nodes import Nodes, require_same, wait_until
from tests.s3 import KEYS, S3Server

pytestmark = pytest.mark.slow
SETTINGS = LibrarySettings("plain", rate=2.0)
CRASHING = "crashes.mp4"
# For the workers: opening this file ends the process, as a decoder does that crashes.
CRASH = f"""
import os, signal, sys
def hook(event, arguments):
    if event == "open" and str(arguments[0]).endswith({CRASHING!r}):
        os.kill(os.getpid(), signal.SIGSEGV)
sys.addaudithook(hook)
"""
COMMAND = """
import sys
import prvr.lake.writer
prvr.lake.writer.COMMIT_SECONDS = 0.2  # so that a command that is killed early has committed something
from prvr.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films, and a file that is not a video; do not change them."""
    world = render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])
    (world.folder / "videos" / "broken.mp4").write_text("no video")
    return world


@pytest.fixture(scope="module")
def whole(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """What one machine makes of them, without interruption; do not change it."""
    lib = create_library(str(tmp_path_factory.mktemp("library") / "whole.lance"), SETTINGS)
    lib.add([films.folder])
    return lib


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return create_library(str(tmp_path / "films.lance"), SETTINGS)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def nodes(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Three nodes whose workers have keys to the bucket, and crash when they open a certain file."""
    import ray

    hooks = tmp_path_factory.mktemp("hooks")
    (hooks / "sitecustomize.py").write_text(CRASH)
    keys = {**KEYS, "AWS_ENDPOINT_URL": server.endpoint, "AWS_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**keys, "PYTHONPATH": os.pathsep.join([str(hooks), *filter(None, sys.path)])}.items():
            patch.setenv(name, value)
        made = Nodes(3)
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def three(nodes: Nodes) -> Nodes:
    """The same, and all are there again."""
    while len(nodes.nodes) < 3:
        nodes.nodes.append(nodes.add())
    return nodes


def add(library: Library, paths: list[Path], nodes: Nodes, **options: Any) -> AddReport:
    return add_on_cluster(library, library.adder(**options), find_videos(paths), nodes.address)


def started(library: str, paths: list[Path], nodes: Nodes) -> subprocess.Popen[bytes]:
    words = [
        "library",
        "add",
        *map(str, paths),
        "--library",
        library,
        "--encoder",
        "plain",
        "--rate",
        "2",
        "--cluster",
        nodes.address,
    ]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def finished(process: subprocess.Popen[bytes]) -> str:
    """What a command printed. Its status is 1, because one file is not a video."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1, err.decode()
    return out.decode()


def test_a_cluster_makes_the_library_of_one_machine(
    three: Nodes, films: RenderedWorld, whole: Library, library: Library
) -> None:
    shown: list[AddProgress] = []
    report = add(library, [films.folder], three, progress=shown.append)
    assert sorted(report.added) == sorted(films.videos.values())
    assert [path.name for path in report.failed] == ["broken.mp4"]
    assert shown[-1].bytes_done == shown[-1].bytes
    require_same(library, whole)
    again = add(library, [films.folder], three)
    assert (len(again.unchanged), again.added) == (len(films.videos), [])


def test_workers_killed_half_way(three: Nodes, films: RenderedWorld, whole: Library, library: Library) -> None:
    killed: list[int] = []

    def kill(now: AddProgress) -> None:
        if len(killed) < 2 and now.files_done >= 4 * (len(killed) + 1):
            killed.append(three.workers("ray::IndexWorker")[0])
            os.kill(killed[-1], signal.SIGKILL)

    report = add(library, [films.folder], three, progress=kill)
    assert len(killed) == 2
    assert len(report.added) == len(set(report.added)) == len(films.videos)
    require_same(library, whole)


def test_a_node_killed_half_way(three: Nodes, films: RenderedWorld, whole: Library, library: Library) -> None:
    def kill(now: AddProgress) -> None:
        if len(three.nodes) == 3 and now.files_done >= 5:
            three.kill()

    report = add(library, [films.folder], three, progress=kill)
    assert len(three.nodes) == 2
    assert len(report.added) == len(set(report.added)) == len(films.videos)
    require_same(library, whole)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_stopped_and_run_again(
    three: Nodes, films: RenderedWorld, whole: Library, library: Library, how: signal.Signals
) -> None:
    process = started(library.address, [films.folder], three)
    wait_until(lambda: len(library.videos()) >= 4)
    process.send_signal(how)
    assert process.wait(60) in (-signal.SIGKILL, 130)
    assert library.verify().ok
    assert len(library.videos()) < 17
    assert "added" in finished(started(library.address, [films.folder], three))
    require_same(library, whole)


def test_ctrl_c_commits_what_is_finished(three: Nodes, films: RenderedWorld, library: Library) -> None:
    def interrupt(now: AddProgress) -> None:
        if now.files_done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(library, [films.folder], three, progress=interrupt)
    assert 3 <= len(library.videos()) < 17
    wait_until(lambda: not three.workers("ray::IndexWorker"))


@pytest.mark.parametrize("bucket", [False, True], ids=["disk", "bucket"])
def test_two_commands_at_once(
    three: Nodes, films: RenderedWorld, whole: Library, tmp_path: Path, server: S3Server, bucket: bool
) -> None:
    """One adds all films, the other some of them: nothing is lost, and nothing is there twice."""
    address = f"{server.make_bucket()}/films.lance" if bucket else str(tmp_path / "films.lance")
    some = sorted(films.videos.values())[4:]
    commands = [started(address, [films.folder], three), started(address, some, three)]
    _, err = commands[1].communicate(timeout=300)
    assert commands[1].returncode == 0, err.decode()
    finished(commands[0])
    require_same(open_library(address), whole)


def test_two_folders_at_once(
    three: Nodes, films: RenderedWorld, whole: Library, library: Library, tmp_path: Path
) -> None:
    paths = sorted(films.videos.values())
    commands = [started(library.address, each, three) for each in (paths[:8], paths[8:])]
    for command in commands:
        out, err = command.communicate(timeout=300)
        assert command.returncode == 0, err.decode()
        assert "8 added" in out.decode()
    add(library, [films.folder], three)  # the file that is not a video
    require_same(library, whole)


def test_a_file_that_crashes_its_decoder(three: Nodes, films: RenderedWorld, library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    paths = sorted(films.videos.values())[:3]
    for path in paths:
        shutil.copy2(path, folder)
    shutil.copy2(paths[0], folder / CRASHING)
    report = add(library, [folder], three)
    assert report.failed == {folder / CRASHING: "made the decoder crash"}
    assert len(report.added) == 3
    assert add(library, [folder], three).failed == report.failed  # and it is not tried again
