"""A stand-in for the Hugging Face hub: the few routes of its API that pushing and loading use, over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

TOKEN = "hf_right"
LARGE = ".safetensors"  # files that are uploaded apart from the commit


@dataclass
class Repository:
    """Files by commit, oldest first."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {}})

    def commit(self, files: dict[str, bytes]) -> str:
        name = hashlib.sha1(repr((len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits[name] = files
        return name

    def resolve(self, revision: str) -> str | None:
        return [*self.commits][-1] if revision == "main" else revision if revision in self.commits else None


class StandInHub:
    """A server with repositories; ``before`` is called with every request and may raise ``ConnectionAbortedError``."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}  # by sha256
        self.requests: list[str] = []
        self.before: Callable[[str], None] = lambda request: None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: StandInHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_PUT = do_GET

    def _serve(self) -> None:
        path = unquote(self.path.partition("?")[0])
        request = f"{self.command} {path}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.requests.append(request)
        try:
            self.hub.before(request)
        except ConnectionAbortedError:
            self.close_connection = True
            self.connection.close()
            return
        for pattern, route in _ROUTES:
            found = re.fullmatch(pattern, request)
            if found:
                route(self, body, **found.groupdict())
                return
        self._answer(404, {"error": f"no route {request}"})

    # -- who asks -----------------------------------------------------------------------------------------------------

    def _given(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _may_write(self) -> bool:
        if self._given() != TOKEN:
            self._answer(401, {"error": "Invalid credentials in Authorization header"})
        return self._given() == TOKEN

    def _repository(self, name: str) -> Repository | None:
        found = self.hub.repositories.get(name)
        if self._given() not in ("", TOKEN):
            self._answer(401, {"error": "Invalid credentials in Authorization header"})
        elif found is None or (found.private and self._given() != TOKEN):
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        else:
            return found
        return None

    # -- reading ------------------------------------------------------------------------------------------------------

    def _info(self, body: bytes, name: str, revision: str = "main") -> None:
        repository = self._repository(name)
        if repository is None:
            return
        commit = repository.resolve(revision)
        if commit is None:
            self._answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
            return
        files = [{"rfilename": file} for file in repository.commits[commit]]
        self._answer(
            200, {"id": name, "modelId": name, "sha": commit, "siblings": files, "private": repository.private}
        )

    def _tree(self, body: bytes, name: str, revision: str) -> None:
        repository = self._repository(name)
        if repository is None:
            return
        files = repository.commits[repository.resolve(revision) or ""]
        self._answer(200, [_entry(path, content) for path, content in files.items()])

    def _file(self, body: bytes, name: str, revision: str, file: str) -> None:
        repository = self._repository(name)
        if repository is None:
            return
        commit = repository.resolve(revision) or ""
        content = repository.commits[commit].get(file)
        if content is None:
            self._answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        digest = hashlib.sha256(content).hexdigest() if file.endswith(LARGE) else _blob(content)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        self._send(200, content, headers | {"Content-Type": "application/octet-stream"})

    # -- writing ------------------------------------------------------------------------------------------------------

    def _create(self, body: bytes) -> None:
        if not self._may_write():
            return
        wanted = json.loads(body)
        name = f"{wanted.get('organization') or 'ann'}/{wanted['name']}"
        if not name.startswith("ann/"):
            self._answer(403, {"error": "You don't have the rights to create a model under this namespace"})
            return
        status = 409 if name in self.hub.repositories else 200
        self.hub.repositories.setdefault(name, Repository(wanted.get("visibility") == "private"))
        self._answer(status, {"url": f"{self.hub.address}/{name}", "name": name})

    def _check_card(self, body: bytes) -> None:
        self._answer(200, {"errors": [], "warnings": []})

    def _preupload(self, body: bytes, name: str) -> None:
        if self._may_write():
            files = [
                {"path": file["path"], "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular"}
                for file in json.loads(body)["files"]
            ]
            self._answer(200, {"files": [file | {"shouldIgnore": False} for file in files]})

    def _batch(self, body: bytes, name: str) -> None:
        if self._may_write():
            objects = []
            for each in json.loads(body)["objects"]:
                upload = {} if each["oid"] in self.hub.large else {"href": f"{self.hub.address}/upload/{each['oid']}"}
                objects.append(each | ({"actions": {"upload": upload}} if upload else {}))
            self._answer(200, {"transfer": "basic", "objects": objects}, kind="application/vnd.git-lfs+json")

    def _upload(self, body: bytes, digest: str) -> None:
        assert hashlib.sha256(body).hexdigest() == digest
        self.hub.large[digest] = body
        self._answer(200, {})

    def _commit(self, body: bytes, name: str) -> None:
        repository = self._repository(name) if self._may_write() else None
        if repository is None:
            return
        files = dict(repository.commits[repository.resolve("main") or ""])
        for line in body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
        commit = repository.commit(files)
        self._answer(200, {"commitUrl": f"{self.hub.address}/{name}/commit/{commit}", "commitOid": commit})

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(
        self, status: int, value: Any, headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": kind, **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
    if path.endswith(LARGE):
        entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return entry


_NAME, _REVISION = r"(?P<name>[^/]+/[^/]+)", r"(?P<revision>[^/]+)"
_ROUTES: list[tuple[str, Callable[..., None]]] = [
    (rf"GET /api/models/{_NAME}", _Handler._info),
    (rf"GET /api/models/{_NAME}/revision/{_REVISION}", _Handler._info),
    (rf"GET /api/models/{_NAME}/tree/{_REVISION}", _Handler._tree),
    (rf"(GET|HEAD) /{_NAME}/resolve/{_REVISION}/(?P<file>.+)", _Handler._file),
    (r"POST /api/repos/create", _Handler._create),
    (r"POST /api/validate-yaml", _Handler._check_card),
    (rf"POST /api/models/{_NAME}/preupload/main", _Handler._preupload),
    (rf"POST /{_NAME}\.git/info/lfs/objects/batch", _Handler._batch),
    (r"PUT /upload/(?P<digest>\w+)", _Handler._upload),
    (rf"POST /api/models/{_NAME}/commit/main", _Handler._commit),
]
