"""Who may do what: tokens, sessions of the page, and a limit for wrong tokens.

A token is sent as ``Authorization: Bearer TOKEN``. The page exchanges it for a session: a cookie that says what its
holder may do and until when, signed with a key made from the token. The token itself is never in the cookie, and a
server with another token accepts no old session.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict, deque
from typing import Literal, cast

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, cookie_parser

from prvr.server.options import ServerOptions
from prvr.server.problems import Problem

Access = Literal["all", "view"]
COOKIE = "prvr_session"
SESSION_SECONDS = 7 * 24 * 3600
_WRONG, _WITHIN = 10, 60.0  # wrong tokens from one address, and seconds; then it must wait
_ADDRESSES = 10_000  # remembered with their wrong tokens
_CHANGES_NOTHING = {"/v1/search", "/v1/export", "/v1/session"}  # although these are POST
# What is not in the library: folders of the machine, and files that somebody adds or could not add.
_NOT_FOR_VIEWERS = ("/v1/folders", "/v1/jobs")


class Doorkeeper:
    """Decides what a request may do, by its token or its session."""

    def __init__(self, options: ServerOptions):
        given: dict[Access, str | None] = {"all": options.token, "view": options.view_token}
        self._tokens = {access: token for access, token in given.items() if token is not None}
        # Slow on purpose: nobody should find a token by trying which one has signed a session.
        self._keys = {
            access: hashlib.scrypt(token.encode(), salt=b"prvr session", n=1 << 14, r=8, p=1)
            for access, token in self._tokens.items()
        }
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def access(self, headers: Headers, client: str) -> Access | None:
        """What a request may do; None: nothing. Without tokens everybody may do everything.

        Raises:
            Problem: too many wrong tokens came from this address.
        """
        if not self._tokens:
            return "all"
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.access_with(credentials.strip(), client)
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE)  # also beside cookies that others wrote badly
        return self._access_of_session(session) if session is not None else None

    def access_with(self, token: str, client: str) -> Access | None:
        """What the holder of a token may do; None if it is wrong.

        Raises:
            Problem: too many wrong tokens came from this address. Until it has waited, no token is looked at.
        """
        if not self._tokens:
            return "all"
        place, now = _network(client), time.monotonic()
        wrong = self._wrong.get(place, deque())
        while wrong and now - wrong[0] > _WITHIN:
            wrong.popleft()
        if len(wrong) >= _WRONG:
            wait = {"Retry-After": str(round(_WITHIN - (now - wrong[0])) + 1)}
            raise Problem(429, "Too many wrong tokens came from this address.", "Wait a minute, then try again.", wait)
        found = [access for access, right in self._tokens.items() if _equal(token, right)]
        if found:
            return found[0]
        wrong.append(now)
        self._wrong[place] = wrong
        self._wrong.move_to_end(place)
        if len(self._wrong) > _ADDRESSES:
            self._wrong.popitem(last=False)
        return None

    def session(self, access: Access) -> str | None:
        """The value of a cookie for the page; None if this server has no tokens.

        >>> keeper = Doorkeeper(ServerOptions(token="a token of length"))
        >>> cookie = keeper.session("all")
        >>> headers = Headers({"cookie": f"{COOKIE}={cookie}"})
        >>> keeper.access(headers, "192.0.2.1"), keeper.access(Headers({"cookie": f"{COOKIE}={cookie}0"}), "192.0.2.1")
        ('all', None)
        """
        if access not in self._keys:
            return None
        claim = f"{access}.{int(time.time()) + SESSION_SECONDS}"
        return f"{claim}.{self._signature(access, claim)}"

    def _access_of_session(self, value: str) -> Access | None:
        claim, _, signature = value.rpartition(".")
        name, _, until = claim.partition(".")
        access = cast(Access, name)
        if access not in self._keys or not _equal(signature, self._signature(access, claim)):
            return None
        return access if int(until) >= time.time() else None

    def _signature(self, access: Access, claim: str) -> str:
        return hmac.new(self._keys[access], claim.encode("utf-8", "replace"), "sha256").hexdigest()


def may(access: Access, method: str, path: str) -> bool:
    """Whether somebody with this access may do this: whoever may view may search, watch and export, no more.

    >>> may("view", "GET", "/v1/videos"), may("view", "POST", "/v1/search"), may("view", "POST", "/v1/videos")
    (True, True, False)
    >>> may("view", "GET", "/v1/jobs"), may("view", "GET", "/v1/jobs/1/events"), may("all", "GET", "/v1/jobs")
    (False, False, True)
    """
    if access == "all":
        return True
    if any(path == place or path.startswith(f"{place}/") for place in _NOT_FOR_VIEWERS):
        return False
    return method in ("GET", "HEAD") or (method == "POST" and path in _CHANGES_NOTHING)


def access_of(request: HTTPConnection) -> Access:
    """What the sender of a request may do, as the guard has found."""
    return cast(Access, request.scope.get("prvr.access", "all"))


def _equal(text: str, secret: str) -> bool:
    """Compare in constant time, so that the time does not tell how many letters were right."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), secret.encode("utf-8", "replace"))


def _network(client: str) -> str:
    """An address, or for IPv6 its /64 network, which one machine owns as a whole.

    >>> _network("192.0.2.1"), _network("::ffff:192.0.2.1"), _network("2001:db8::1:2:3:4"), _network("testclient")
    ('192.0.2.1', '192.0.2.1', '2001:db8::/64', 'testclient')
    """
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address) if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))
