"""A real S3 server for tests: moto's, in a thread of this process. It counts requests, and can go away and return."""

from __future__ import annotations

import logging
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
_FREE = 10**9  # requests that need no known keys: all


@dataclass(frozen=True)
class S3Request:
    """One request that the server answered."""

    method: str
    path: str
    bytes: int  # of the answer's body


class S3Server:
    """The server. ``requests`` holds what it answered; ``before`` is called with the path of each request."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._port = self._buckets = 0
        self.running = False
        self.requests: list[S3Request] = []
        self.before: Callable[[str], None] = lambda path: None
        self.start()

    def start(self) -> None:
        """Answer, at the same address as before."""
        from werkzeug.serving import make_server

        self._server = make_server("127.0.0.1", self._port, self._answer, threaded=True)
        self._port = self._server.port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.running = True

    def stop(self) -> None:
        """Refuse connections from now on; what was stored is kept."""
        self._server.shutdown()
        self._server.server_close()
        self.running = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        self.before(environ["PATH_INFO"])

        def started(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            size = int(dict(headers).get("Content-Length", 0)) if environ["REQUEST_METHOD"] == "GET" else 0
            self.requests.append(S3Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], size))
            return start(status, headers, *more)

        return self._app(environ, started)

    def downloaded(self, ending: str) -> int:
        """Bytes of files with this ending that were sent."""
        return sum(each.bytes for each in self.requests if each.path.endswith(ending))

    def request(self, method: str, path: str, data: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS test:unsigned"}
        asked = urllib.request.Request(f"{self.endpoint}{urllib.parse.quote(path)}", data, headers, method=method)
        return bytes(urllib.request.urlopen(asked).read())

    def make_bucket(self) -> str:
        """A new bucket, as an address."""
        self._buckets += 1
        self.request("PUT", f"/films-{self._buckets}")
        return f"s3://films-{self._buckets}"

    def put(self, address: str, file: Path | bytes) -> None:
        """Store a file at s3://BUCKET/NAME."""
        data = file if isinstance(file, bytes) else file.read_bytes()
        self.request("PUT", "/" + address.removeprefix("s3://"), data)

    def delete(self, address: str) -> None:
        self.request("DELETE", "/" + address.removeprefix("s3://"))

    def require_keys(self, needed: bool = True) -> None:
        """Check keys from now on. It knows none, so that every request is denied."""
        self.request("POST", "/moto-api/reset-auth", b"0" if needed else str(_FREE).encode())
