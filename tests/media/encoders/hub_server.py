"""A small server that answers the hub's client as the hub does: facts about a model, its files, their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub_server(name: str, folder: Path) -> Iterator[str]:
    """Serve the files of a folder as the model ``name``; yields the address."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.startswith(f"/{name}/resolve/{COMMIT}/"):
                self.give(files.get(path.split("/", 5)[-1]))
            elif path == f"/api/models/{name}/tree/{COMMIT}":
                self.give([{"type": "file", "path": file, **facts(file, "oid")} for file in files])
            elif path == f"/api/models/{name}":
                siblings = [{"rfilename": file, **facts(file, "sha256")} for file in files]
                self.give({"id": name, "sha": COMMIT, "siblings": siblings})
            else:
                self.give(None)

        def give(self, answer: Any) -> None:
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    def facts(file: str, hash_name: str) -> dict[str, Any]:
        content = files[file]
        large = {"size": len(content), hash_name: hashlib.sha256(content).hexdigest(), "pointerSize": 130}
        about: dict[str, Any] = {"size": len(content), "oid": hashlib.sha1(content).hexdigest()}
        return about | ({"lfs": large} if file.endswith(("safetensors", "bin")) else {})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
