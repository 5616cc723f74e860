"""`prvr serve` as a process: it says where it is, and stops when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from prvr.cli import main


def test_it_serves_and_stops_gracefully(base: Path) -> None:
    command = [sys.executable, "-m", "prvr", "serve", str(base / "library"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
        for _ in range(100):
            try:
                assert httpx.get(f"{address}v1/health").json()["status"] == "ok"
                break
            except httpx.TransportError:
                continue
        assert httpx.post(f"{address}v1/search", json={"query": "a red square"}, timeout=60).status_code == 200
        server.send_signal(signal.SIGTERM)
        _, complaints = server.communicate(timeout=30)
    finally:
        server.kill()
    assert server.returncode in (0, -signal.SIGTERM)
    assert "Traceback" not in complaints


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
    assert "is no library" in " ".join(capsys.readouterr().err.split())
