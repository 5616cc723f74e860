"""The options of the server, and their checks."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from prvr.errors import UserError
from prvr.media import VideoFile


class ServerError(UserError):
    """The server cannot be started with these options; the message says what to do."""


@dataclass(frozen=True)
class ServerOptions:
    """Where to listen and what to allow."""

    host: str = "127.0.0.1"
    port: int = 7870
    token: str | None = None  # if set, every request must carry it, or the next
    view_token: str | None = None  # with this one, requests that change something are refused
    certfile: Path | None = None  # with keyfile: HTTPS
    keyfile: Path | None = None
    proxies: tuple[str, ...] = ()  # addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed
    roots: tuple[VideoFile, ...] = ()  # folders that videos may be added from
    max_body: int = 64 * 1024  # bytes of a request's body
    max_search: int = 12 << 20  # the same for a search, which may hold a picture
    max_export: int = 4 << 20  # the same for an export: 500 moments with labels of 500 letters
    max_head: int = 32 * 1024  # bytes of a request's headers
    max_url: int = 16 * 1024  # bytes of a URL with its query; longer than any valid one
    waiting: int = 1024  # searches that may wait; more are refused
    batch: int = 64  # searches scored in one pass

    @property
    def scheme(self) -> str:
        return "http" if self.certfile is None else "https"

    @property
    def proxy_networks(self) -> list[str]:
        """The proxies; those of IPv4 also as a server that listens on IPv6 sees them.

        >>> ServerOptions(proxies=("10.0.0.0/8", "fd00::1")).proxy_networks
        ['10.0.0.0/8', 'fd00::1', '::ffff:10.0.0.0/104']
        """
        networks = (ipaddress.ip_network(proxy) for proxy in self.proxies)
        mapped = (f"::ffff:{net.network_address}/{96 + net.prefixlen}" for net in networks if net.version == 4)
        return [*self.proxies, *mapped]

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
        for token in (self.token, self.view_token):
            if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable()):
                raise ServerError(
                    "a token needs at least 16 characters, all printable ASCII (letters, digits, punctuation)"
                )
        if self.view_token is not None and self.token in (None, self.view_token):
            raise ServerError("a token for viewing needs another --token beside it, for those who may change things")
        if (self.certfile is None) != (self.keyfile is None):
            raise ServerError("HTTPS needs both --certfile and --keyfile (or both in one file, named twice)")
        if self.certfile is not None and self.keyfile is not None:
            _check_certificate(self.certfile, self.keyfile)
        for proxy in self.proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ServerError(f"--trusted-proxy {proxy}: name an address or a network, as in 10.0.0.0/8") from None
        for root in self.roots:
            if not root.is_dir():
                raise ServerError(f"--allow-root {root}: there is no such folder")


def _check_certificate(certfile: Path, keyfile: Path) -> None:
    """Load a certificate and its key once, so that a problem shows before the server starts."""
    for file in (certfile, keyfile):
        if not file.is_file():
            raise ServerError(f"{file}: there is no such file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password=_refuse_password)
    except (OSError, ValueError) as problem:  # OSError: also those of OpenSSL
        raise ServerError(f"{certfile} and {keyfile} are not a certificate and its key (PEM): {problem}") from None


def _refuse_password() -> NoReturn:
    raise ServerError("the key of the certificate is encrypted: store it without a password, readable by you only")


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
