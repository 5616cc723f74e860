"""The options of the server, and their checks."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from prvr.errors import UserError
from prvr.media import VideoFile


class ServerError(UserError):
    """The server cannot be started with these options; the message says what to do."""


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen and what to allow."""

    host: str = "127.0.0.1"
    port: int = 7870
    token: str | None = None  # if set, every request must carry it
    roots: tuple[VideoFile, ...] = ()  # folders that videos may be added from
    max_body: int = 64 * 1024  # bytes of a request's body
    max_search: int = 12 << 20  # the same for a search, which may hold a picture
    max_export: int = 4 << 20  # the same for an export: 500 moments with labels of 500 letters
    max_head: int = 32 * 1024  # bytes of a request's headers
    max_url: int = 16 * 1024  # bytes of a URL with its query; longer than any valid one
    waiting: int = 1024  # searches that may wait; more are refused
    batch: int = 64  # searches scored in one pass

    @property
    def shown_host(self) -> str:
        """The host as it is written in a URL."""
        return f"[{self.host.strip('[]')}]" if ":" in self.host else self.host

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ServerError(f"--port must be between 0 (any free port) and 65535, not {self.port}")
        if not is_loopback(self.host) and not self.token:
            raise ServerError(
                f"other machines can reach {self.host}, so a token is needed: --token SECRET (or PRVR_TOKEN=SECRET in "
                "the environment), at least 16 characters; or leave --host out to serve this machine only"
            )
        if self.token is not None and (
            len(self.token) < 16 or not self.token.isascii() or not self.token.isprintable()
        ):
            raise ServerError(
                "a token needs at least 16 characters, all printable ASCII (letters, digits, punctuation)"
            )
        for root in self.roots:
            if not root.is_dir():
                raise ServerError(f"--allow-root {root}: there is no such folder")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
