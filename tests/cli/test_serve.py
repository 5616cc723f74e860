"""Where `prvr serve` takes its token from."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.cli.serve import ServeArguments, _token
from prvr.server import ServerError

SECRET = "a secret of many letters"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PRVR_TOKEN", "PRVR_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


def test_a_token_is_given_itself_or_in_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _token(ServeArguments()) is None
    assert _token(ServeArguments(token="direct")) == "direct"
    assert _token(ServeArguments(token_file=file)) == SECRET
    monkeypatch.setenv("PRVR_TOKEN_FILE", str(file))
    assert _token(ServeArguments()) == SECRET
    assert _token(ServeArguments(token="direct")) == "direct"  # the command line comes first
    monkeypatch.setenv("PRVR_TOKEN", "other")
    with pytest.raises(ServerError, match="leave one of them out"):
        _token(ServeArguments())


def test_a_file_without_a_token_is_refused(file: Path) -> None:
    file.write_text(" \n")
    with pytest.raises(ServerError, match="is empty"):
        _token(ServeArguments(token_file=file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ServerError, match="other characters than ASCII"):
        _token(ServeArguments(token_file=file))
    with pytest.raises(ServerError, match="No such file"):
        _token(ServeArguments(token_file=file.with_name("nowhere")))
