"""A command whose output nobody reads any more, as with ``| head``, ends quietly with status 141."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from prvr.library import Library
from prvr.media.writer import write_video
from prvr.processes import python_command

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "films").mkdir()
    film = write_video(folder / "films" / "grey.mp4", [np.full((32, 32, 3), 200, np.uint8)] * 4, fps=2)
    Library.create(folder / "library", encoder="plain").add([film])
    return folder / "library"


def without_reader(library: Path, words: list[str], *, errors_too: bool = False) -> tuple[int, str]:
    """Run a command whose output nobody reads; returns its exit code and what it wrote to standard error."""
    read, write = os.pipe()
    os.close(read)
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(
            python_command("prvr", *words),
            env=os.environ | {"PRVR_LIBRARY": str(library), "PYTHONUNBUFFERED": ""},  # print holds short texts back
            stdout=write,
            stderr=write if errors_too else errors,
            check=False,
            timeout=120,
        )
        os.close(write)
        errors.seek(0)
        return done.returncode, errors.read().decode()


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "zoo",
        "doctor",
        "library list",
        "library list --json",
        "library --help",
        "search something grey",
        "search something grey --json",
        "search --help",
    ],
)
def test_a_command_ends_quietly(library: Path, words: str) -> None:
    code, errors = without_reader(library, words.split())
    assert (code, errors) == (141, "")


def test_a_dataset_is_checked(library: Path, world: Path) -> None:
    (dataset,) = [path for path in world.iterdir() if path.is_dir()]
    assert without_reader(library, ["data", "check", str(dataset)]) == (141, "")


def test_an_error_that_nobody_reads(library: Path, tmp_path: Path) -> None:
    words = ["library", "list", str(tmp_path / "none")]
    assert without_reader(library, words, errors_too=True)[0] == 141


def test_a_watcher_ends(library: Path) -> None:
    pytest.importorskip("watchfiles", reason='watching needs watchfiles: pip install "prvr[watch]"')
    words = ["library", "watch", str(library.parent / "films"), "--library", str(library)]
    code, errors = without_reader(library, words)
    assert (code, "Traceback" in errors) == (141, False)


def test_a_command_without_an_output_works(library: Path) -> None:
    command = ["sh", "-c", 'exec "$0" "$@" >&-', *python_command("prvr", "library", "list")]
    done = subprocess.run(command, env=os.environ | {"PRVR_LIBRARY": str(library)}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
