"""A network that fails: an HTTP proxy in front of a server, which delays, refuses, drops and cuts answers."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Fault = Callable[[str, str], str | None]  # method and path of a request → one of ``FAULTS``, or None
FAULTS = ("500", "503", "403", "slow", "drop", "lose", "cut")


class Proxy:
    """Passes requests on to a server. ``fault`` decides what happens to each one.

    A status such as "503" is answered at once, "slow" waits half a second. "drop" closes the connection before the
    server sees the request, "lose" after it has done what was asked, and "cut" in the middle of the answer's body.
    """

    def __init__(self, endpoint: str):
        self.server, self.fault = urlsplit(endpoint).netloc, no_fault
        self.faults = 0  # so far
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                proxy.answer(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

            def log_message(self, *words: Any) -> None:
                pass

        self._listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._listening.server_port}"
        threading.Thread(target=self._listening.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown()
        self._listening.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        fault = self.fault(request.command, request.path)
        self.faults += fault is not None
        if fault == "slow":
            time.sleep(0.5)
        elif fault == "drop":
            return _hang_up(request)
        elif fault is not None and fault.isdigit():
            return _send(
                request, int(fault), {}, b"<Error><Code>AccessDenied</Code></Error>" if fault == "403" else b""
            )
        asked = http.client.HTTPConnection(self.server, timeout=60)
        try:
            asked.request(request.command, request.path, body, dict(request.headers))
            found = asked.getresponse()
            content = found.read()
        except OSError:  # the server itself is gone
            return _hang_up(request)
        finally:
            asked.close()
        if fault == "lose":
            return _hang_up(request)
        headers = {name: value for name, value in found.getheaders() if name.lower() not in _OWN}
        if request.command == "HEAD":
            headers["Content-Length"] = found.getheader("Content-Length", "0")
        _send(request, found.status, headers, content, cut=fault == "cut")


_OWN = ("content-length", "connection", "transfer-encoding", "server", "date")


def no_fault(method: str, path: str) -> str | None:
    return None


def _send(
    request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False
) -> None:
    request.send_response(status)
    for name, value in ({"Content-Length": str(len(content))} | headers).items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content[: len(content) // 2] if cut else content)
    if cut:
        _hang_up(request)


def _hang_up(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True
    request.connection.shutdown(socket.SHUT_RDWR)
