"""Kill -9 at 200 random moments: what is left is whole at every moment, and the end is that of an undisturbed run.

PRVR_KILLS=1000 does more of them, PRVR_KILLS=20 fewer.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import h5py
import httpx
import numpy as np
import pytest

from prvr.library import Library
from prvr.worlds import RenderedWorld
from tests.faults.conftest import RATE, write_bigfile
from tests.faults.helpers import TIMEOUT, finish, kill_again_and_again, kills, seconds_of, start
from tests.library.store.test_faults import same
from tests.training.test_resume import assert_same

pytestmark = pytest.mark.slow


def test_library_add(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    rng = random.Random(3)

    def begin() -> subprocess.Popen[str]:
        return start("library", "add", films.folder, "--library", lib.folder)

    def look() -> None:
        found = lib.verify()
        assert found.ok, found.problems
        names = [video.path for video in lib.videos()]
        assert len(names) == len(set(names))
        lib.search("a red square")
        if len(names) > len(films.videos) - 4:  # nearly done: take some out, so that there is work to be killed in
            lib.remove(rng.sample(names, 10))

    kill_again_and_again(begin, kills(80), 1, 0.8, look)
    finish(begin())
    same(lib, whole)


def test_data_convert(tmp_path: Path) -> None:
    source = write_bigfile(tmp_path / "undisturbed", videos=4000)
    longest = seconds_of(lambda: start("data", "convert", source))
    expected = _content(source / "feature.hdf5")
    folder = tmp_path / "killed"
    shutil.copytree(source, folder, ignore=lambda *_: ["feature.hdf5"])

    def look() -> None:
        if (folder / "feature.hdf5").exists():
            assert _content(folder / "feature.hdf5") == expected
            (folder / "feature.hdf5").unlink()

    kill_again_and_again(lambda: start("data", "convert", folder), kills(60), 2, longest * 0.6, look)
    finish(start("data", "convert", folder))
    assert _content(folder / "feature.hdf5") == expected
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in source.iterdir())


def _content(path: Path) -> dict[str, bytes]:
    with h5py.File(path, "r") as file:
        return {name: np.asarray(file[name]).tobytes() for name in file}


def test_train(preset: Path, world: Path, tmp_path: Path) -> None:
    flags = ("--data", world, "--resume", "--checkpoint-seconds", "0", "--checkpoint-steps", "1")

    def begin(out: Path) -> subprocess.Popen[str]:
        return start("train", preset, "--out", out, *flags)

    undisturbed = tmp_path / "undisturbed"
    longest = seconds_of(lambda: begin(undisturbed))
    number = 0

    def look() -> None:
        nonlocal number
        if (tmp_path / f"run-{number}" / "weights" / "average").is_dir():
            finish(begin(tmp_path / f"run-{number}"))  # what was left of closing it
            assert_same(undisturbed, tmp_path / f"run-{number}")
            number += 1

    kill_again_and_again(lambda: begin(tmp_path / f"run-{number}"), kills(40), 3, longest * 0.6, look)
    finish(begin(tmp_path / f"run-{number}"))
    assert_same(undisturbed, tmp_path / f"run-{number}")


def test_serve_while_adding_through_it(films: RenderedWorld, whole: Library, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    rng = random.Random(4)
    for _ in range(kills(20)):
        server, address = _served(lib, films)
        try:
            _ask_to_add(address)
            time.sleep(rng.uniform(0, 4.0))
        finally:
            server.send_signal(signal.SIGKILL)
            server.communicate(timeout=TIMEOUT)
        found = lib.verify()
        assert found.ok, found.problems
        names = [video.path for video in lib.videos()]
        assert len(names) == len(set(names))
        if len(names) == len(films.videos):
            lib.remove(rng.sample(names, 8))
    server, address = _served(lib, films)
    try:
        job = _ask_to_add(address)
        deadline = time.monotonic() + TIMEOUT
        while (now := httpx.get(f"{address}v1/jobs/{job['id']}").json())["state"] in ("queued", "running"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert now["state"] == "done", now
        asked = {"query": "a red square moves to the left", "limit": 100}
        hits = httpx.post(f"{address}v1/search", json=asked, timeout=60).json()["hits"]
    finally:
        server.send_signal(signal.SIGKILL)
        server.communicate(timeout=TIMEOUT)
    same(lib, whole)
    expected = {hit.video.name: hit.score for hit in whole.search(asked["query"], limit=100)}
    assert {hit["video"]["filename"]: pytest.approx(hit["score"], abs=1e-4) for hit in hits} == expected


def _served(lib: Library, films: RenderedWorld) -> tuple[subprocess.Popen[str], str]:
    server = start("serve", lib.folder, "--port", 0, "--allow-root", films.folder)
    assert server.stdout is not None
    address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    for _ in range(200):
        try:
            httpx.get(f"{address}v1/health")
            break
        except httpx.TransportError:
            time.sleep(0.05)
    return server, address


def _ask_to_add(address: str) -> dict[str, Any]:
    answer = httpx.post(f"{address}v1/videos", json={"root": "films", "path": ""}, timeout=60)
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told
