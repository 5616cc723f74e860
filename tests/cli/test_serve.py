"""Where `prvr serve` and `prvr mcp --http` take their token from."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.cli.token import find_token
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
    assert find_token(None, None) is None
    assert find_token("direct", None) == "direct"
    assert find_token(None, file) == SECRET
    monkeypatch.setenv("PRVR_TOKEN_FILE", str(file))
    assert find_token(None, None) == SECRET
    assert find_token("direct", None) == "direct"  # the command line comes first
    monkeypatch.setenv("PRVR_TOKEN", "other")
    with pytest.raises(ServerError, match="leave one of them out"):
        find_token(None, None)


def test_a_file_without_a_token_is_refused(file: Path) -> None:
    file.write_text(" \n")
    with pytest.raises(ServerError, match="is empty"):
        find_token(None, file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ServerError, match="other characters than ASCII"):
        find_token(None, file)
    with pytest.raises(ServerError, match="holds no token"):
        find_token(None, Path("/dev/zero"))
    with pytest.raises(ServerError, match="No such file"):
        find_token(None, file.with_name("nowhere"))
