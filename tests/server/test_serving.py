"""`prvr serve` as a process: it prints its address, serves, and stops on a signal."""

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
from prvr.server import ServerOptions, build_server, create_app


@contextmanager
def serving(library: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the server; yields its address and its process."""
    command = [sys.executable, "-m", "prvr", "serve", str(library), "--port", "0", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(word for word in server.stdout.readline().split() if word.startswith("http")).rstrip("/")
        ends = time.monotonic() + 120
        while True:
            try:
                assert httpx.get(f"{address}/v1/health", verify=False).json()["status"] == "ok"
                break
            except httpx.TransportError:
                assert time.monotonic() < ends
                time.sleep(0.05)
        yield address, server
    finally:
        server.kill()
        server.wait()


def stopped(server: subprocess.Popen[str]) -> str:
    """Stop the server with SIGTERM; returns what it wrote to standard error."""
    server.send_signal(signal.SIGTERM)
    _, errors = server.communicate(timeout=120)
    assert server.returncode in (0, 143)
    return errors


def test_decoders_are_not_started_by_a_fork(base: Path) -> None:
    """A fork waits for NumPy's threads, for ever if one is at work. uvloop starts processes that way."""
    assert build_server(create_app(Library.open(base / "library"), ServerOptions())).config.loop == "asyncio"


def test_a_server_of_a_small_library_starts_without_torch(base: Path) -> None:
    """Importing it takes longer than all the rest of a start."""
    program = (
        "import sys\nfrom prvr.library import Library\nfrom prvr.server import create_app\n"
        "create_app(Library.open(sys.argv[1]))\nprint('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(base / "library")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_it_serves_and_stops_gracefully(base: Path) -> None:
    with serving(base / "library") as (address, server):
        assert httpx.post(f"{address}/v1/search", json={"query": "a red square"}, timeout=300).status_code == 200
        assert "Traceback" not in stopped(server)


def test_searches_work_during_a_job_and_stopping_ends_the_job(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base / "library", tmp_path / "library")
    shutil.copytree(base / "films", tmp_path / "more")
    for number in range(40):  # enough work to stop in the middle of it
        for film in sorted((base / "films").glob("*.mp4"))[:4]:
            shutil.copy(film, tmp_path / "more" / f"{number}-{film.name}")
    answers: list[int] = []
    stop_searching = threading.Event()

    def keep_searching(client: httpx.Client, number: int) -> None:
        while not stop_searching.is_set():
            body = {"query": f"a red square {number}", "group_by": "moment" if number % 2 else "video", "limit": 20}
            answers.append(client.post("/v1/search", json=body).status_code)

    with (
        serving(tmp_path / "library", "--allow-root", str(tmp_path / "more")) as (address, server),
        httpx.Client(base_url=address, timeout=300) as client,
    ):
        before = client.get("/v1/library").json()["videos"]
        job = client.post("/v1/videos", json={"root": "more"}).json()
        threads = [threading.Thread(target=keep_searching, args=(client, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + 300
        while client.get("/v1/library").json()["videos"] < before + 4:  # added videos are listed at once
            assert time.monotonic() < ends
            time.sleep(0.1)
        stop_searching.set()
        for thread in threads:
            thread.join()
        assert len(answers) > 8
        assert set(answers) == {200}
        with client.stream("GET", job["events_url"]) as response:
            lines = response.iter_lines()
            assert "running" in next(line for line in lines if line.startswith("data:"))
            server.send_signal(signal.SIGTERM)
            last = [line for line in lines if line.startswith("data:")][-1]
        assert "cancelled" in last
        _, errors = server.communicate(timeout=120)
        assert "Traceback" not in errors
    assert Library.open(tmp_path / "library").verify().ok


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "a token is needed"),
        (["--token", "short"], "at least 16"),
        (["--view-token", "a token to look at"], "needs another --token"),
        (["--certfile", "cert.pem"], "both --certfile and --keyfile"),
        (["--certfile", "/no/cert.pem", "--keyfile", "/no/key.pem"], "there is no such file"),
        (["--certfile", __file__, "--keyfile", __file__], "not a certificate and its key"),
        (["--allow-root", "/no/such/folder"], "no such folder"),
    ],
)
def test_unsafe_or_wrong_options_are_refused(
    base: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRVR_TOKEN", raising=False)
    assert main(["serve", str(base / "library"), *arguments]) == 1
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_folder_that_is_not_a_library_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path)]) == 1
    assert "is not a library" in " ".join(capsys.readouterr().err.split())
