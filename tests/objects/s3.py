"""A real S3 server on this machine, in a process of its own: moto's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from typing import Any

BUCKET = "films"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class S3:
    """The server; ``free``: requests after which it looks at keys."""

    def __init__(self, free: int | None = None):
        self.port = free_port()
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        rules = {} if free is None else {"INITIAL_NO_AUTH_ACTION_COUNT": str(free)}
        self.process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **rules}
        )
        end = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/").read()
                break
            except OSError:
                assert time.monotonic() < end, "the server does not answer"
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.05)
        self.request("PUT", f"/{BUCKET}")

    def address(self, name: str, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{name}?endpoint_override=http://127.0.0.1:{self.port}&region=us-east-1"

    def request(self, method: str, path: str, data: bytes | None = None) -> Any:
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        return urllib.request.urlopen(asked).read()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
