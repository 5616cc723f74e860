"""`prvr serve` as a process: it says where it is, and stops when it is told to."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from prvr.cli import main
from prvr.library import Library


@contextmanager
def serving(library: Path, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address, and the process."""
    command = [sys.executable, "-m", "prvr", "serve", str(library), "--port", "0", *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(word for word in server.stdout.readline().split() if word.startswith("http")).rstrip("/")
        ends = time.monotonic() + 120
        while True:
            try:
                assert httpx.get(f"{address}/v1/health").json()["status"] == "ok"
                break
            except httpx.TransportError:
                assert time.monotonic() < ends
                time.sleep(0.05)
        yield address, server
    finally:
        server.kill()
        server.wait()


def stopped(server: subprocess.Popen[str]) -> str:
    """Stop it as a system does; what it complained about."""
    server.send_signal(signal.SIGTERM)
    _, complaints = server.communicate(timeout=120)
    assert server.returncode in (0, -signal.SIGTERM)
    return complaints


def test_it_serves_and_stops_gracefully(base: Path) -> None:
    with serving(base / "library") as (address, server):
        assert httpx.post(f"{address}/v1/search", json={"query": "a red square"}, timeout=300).status_code == 200
        assert "Traceback" not in stopped(server)


def test_adding_fails_no_search_and_stopping_ends_a_job_that_somebody_follows(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base / "library", tmp_path / "library")
    shutil.copytree(base / "films", tmp_path / "more")
    for number in range(40):  # enough work to be stopped in the middle of it
        for film in sorted((base / "films").glob("*.mp4"))[:4]:
            shutil.copy(film, tmp_path / "more" / f"{number}-{film.name}")
    answers: list[int] = []
    asking = threading.Event()

    def ask(client: httpx.Client, number: int) -> None:
        while not asking.is_set():
            asked = {"query": f"a red square {number}", "group_by": "moment" if number % 2 else "video", "limit": 20}
            answers.append(client.post("/v1/search", json=asked).status_code)

    with (
        serving(tmp_path / "library", "--allow-root", str(tmp_path / "more")) as (address, server),
        httpx.Client(base_url=address, timeout=300) as client,
    ):
        before = client.get("/v1/library").json()["videos"]
        job = client.post("/v1/videos", json={"root": "more"}).json()
        threads = [threading.Thread(target=ask, args=(client, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + 300
        while client.get("/v1/library").json()["videos"] < before + 4:  # what was added can be found at once
            assert time.monotonic() < ends
            time.sleep(0.1)
        asking.set()
        for thread in threads:
            thread.join()
        assert len(answers) > 8
        assert set(answers) == {200}
        with client.stream("GET", job["events_url"]) as told:
            lines = told.iter_lines()
            assert "running" in next(line for line in lines if line.startswith("data:"))
            server.send_signal(signal.SIGTERM)
            last = [line for line in lines if line.startswith("data:")][-1]
        assert "cancelled" in last
        _, complaints = server.communicate(timeout=120)
        assert "Traceback" not in complaints
    assert Library.open(tmp_path / "library").verify().ok


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "a token is needed"),
        (["--token", "short"], "at least 16"),
        (["--allow-root", "/no/such/folder"], "no such folder"),
    ],
)
def test_what_is_unsafe_or_wrong_is_said(
    base: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRVR_TOKEN", raising=False)
    assert main(["serve", str(base / "library"), *words]) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_folder_that_is_no_library_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path)]) == 1
    assert "is not a library" in " ".join(capsys.readouterr().err.split())
