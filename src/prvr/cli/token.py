"""The secret of a server: from the command line, from a file, or from the environment."""

from __future__ import annotations

import os
from pathlib import Path

from prvr.server import ServerError

_LONGEST = 4096  # characters


def find_token(token: str | None, file: Path | None, variable: str = "PRVR_TOKEN") -> str | None:
    """The token from the command line, else from the environment; each gives it itself or names a file."""
    environment = os.environ.get(variable) or None, os.environ.get(f"{variable}_FILE") or None
    for given, place in ((token, file), environment):
        if given and place:
            raise ServerError(f"a token and a file with one ({place}) are given: leave one of them out")
        if given:
            return given
        if place:
            return _token_in(Path(place))
    return None


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            token = opened.read(_LONGEST + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it holds other characters than ASCII"
        raise ServerError(f"the token cannot be read from {file}: {reason}") from None
    if len(token) > _LONGEST or "\0" in token:
        raise ServerError(f"{file} holds no token, but other things: put a token into it, and nothing else")
    if not token:
        raise ServerError(f"{file} is empty: put a token of at least 16 characters into it")
    return token
