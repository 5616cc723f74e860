"""Lakes on a disk and on a real S3 server, and small films to fill them with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.lake import copy_library, newest, open_library
from prvr.library import IndexedVideo, Library
from prvr.library.copying import read_indexed
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.lake.proxy import Proxy
from tests.library.search.drawn_library import drawn_library
from tests.s3 import KEYS, S3Server

pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
RATE = 2.0
SENTENCE = "a red square moves to the left"
# A ``prvr`` command that commits often, so that a kill comes between commits.
COMMAND = """
import sys
from prvr.cli import main
import prvr.cli.library, prvr.lake.store, prvr.lake.writer
prvr.lake.writer.COMMIT_SECONDS = float(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searchers look for a newer version before every search."""
    monkeypatch.setattr(newest, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(newest, "AWAY_SECONDS", 0.0)
    monkeypatch.setattr(newest, "PATIENCE", 600.0)


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    pytest.importorskip("moto", reason="the S3 server of the tests is moto's: pip install 'moto[server]'")
    made = S3Server()
    yield made
    if made.running:
        made.stop()


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with its address and keys in the environment."""
    if not server.running:
        server.start()
    for name, value in {**KEYS, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": server.endpoint}.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """An empty bucket, as an address."""
    return s3.make_bucket()


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A network between the server and this machine, which can fail."""
    made = Proxy(s3.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
    yield made
    made.close()


@pytest.fixture(params=["disk", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address with nothing at it."""
    if request.param == "disk":
        return str(tmp_path / "films.lance")
    return f"{request.getfixturevalue('bucket')}/films"


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films; read only."""
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture
def own(films: RenderedWorld, tmp_path: Path) -> Path:
    """A folder of three films to do things to."""
    folder = tmp_path / "own"
    folder.mkdir()
    for path in sorted(films.videos.values())[:3]:
        shutil.copy2(path, folder)
    return folder


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of drawn vectors in a folder; read only."""
    return drawn_library(tmp_path_factory.mktemp("drawn") / "library")


@pytest.fixture(scope="session")
def drawn_lake(drawn: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it as a lake; read only."""
    folder = tmp_path_factory.mktemp("drawn") / "copy.lance"
    copy_library(drawn.address, str(folder))
    return folder


@pytest.fixture
def lake(drawn: Library, drawn_lake: Path, tmp_path: Path) -> Library:
    """Such a lake to do things to."""
    shutil.copytree(drawn_lake, tmp_path / "drawn.lance")
    return opened(tmp_path / "drawn.lance", drawn)


def opened(address: str | Path, like: Library) -> Library:
    """Open a copy of a library with the encoders of the original."""
    return Library(open_library(str(address)).store, like._state.encoders)


def drawn_videos(drawn: Library, first: int, last: int) -> list[IndexedVideo]:
    """Some videos of the drawn library, ready to be committed elsewhere."""
    snapshot = drawn.snapshot()
    return [read_indexed(drawn, snapshot, video) for video in drawn.videos()[first:last]]


def require_unique(library: Library, videos: int | None = None) -> None:
    """Nothing is lost or doubled: complete sections, and a number and a path for each video."""
    found = library.verify()
    assert found.ok, found.problems
    known = library.videos()
    assert len({video.id for video in known}) == len({video.path for video in known}) == len(known)
    assert videos is None or len(known) == videos


@dataclass(frozen=True)
class Said:
    """What a command said."""

    status: int
    out: str
    err: str

    def refuses(self, words: str) -> None:
        """One sentence on stderr with the exit status 1."""
        assert self.status == 1, self
        assert len([line for line in self.err.splitlines() if line.startswith("error:")]) == 1, self.err
        assert "Traceback" not in self.err
        assert words in self.err, self.err


@pytest.fixture
def prvr(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """``prvr("library", "list", …)``: a command in this process."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        status = main([*map(str, words)])
        return Said(status, *capsys.readouterr())

    return run


def start(*words: object, commit_seconds: float = 0.0, held: bool = False) -> subprocess.Popen[str]:
    """A ``prvr`` command in a process of its own, with everything imported; ``held``: it begins at ``go``."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(commit_seconds), *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready", process.communicate()
    if not held:
        go(process)
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> Said:
    out, err = process.communicate(timeout=300)
    return Said(process.returncode, out, err)
