"""Tokens: what each may do, sessions instead of tokens in cookies, a limit for wrong ones, and HTTPS."""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from prvr.library import Library
from prvr.server import ServerOptions, build_server, create_app
from prvr.server.access import COOKIE
from tests.server.conftest import Served
from tests.server.test_serving import serving, stopped

TOKEN, VIEW = "a token of length", "a token to look at"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(served: Served) -> Iterator[TestClient]:
    options = ServerOptions(host="0.0.0.0", token=TOKEN, view_token=VIEW, roots=(served.folder / "new",))
    with TestClient(create_app(served.library, options), base_url="http://films.example") as opened:
        yield opened


def test_a_cookie_holds_a_signed_session_and_not_the_token(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    given = client.post("/v1/session", json={"token": TOKEN})
    value = client.cookies[COOKIE]
    assert TOKEN not in given.headers["set-cookie"]
    assert client.get("/v1/videos").status_code == 200
    client.cookies.clear()
    _, until, signature = value.split(".")
    for forged in (f"all.{int(until) + 9}.{signature}", f"view.{until}.{signature}", TOKEN, f"{value}é", "..", ""):
        assert client.get("/v1/videos", headers={"Cookie": f"{COOKIE}={forged}".encode()}).status_code == 401, forged
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 24 * 3600)
    assert client.get("/v1/videos", headers={"Cookie": f"{COOKIE}={value}"}).status_code == 401  # it has expired


def test_a_token_for_viewing_changes_nothing(client: TestClient) -> None:
    for use in (bearer(VIEW), {}):  # as a header, then as a session of the page
        if not use:
            assert client.post("/v1/session", json={"token": VIEW}).status_code == 204
        library = client.get("/v1/library", headers=use).json()
        assert (library["writable"], library["roots"]) == (False, [])
        assert client.post("/v1/search", json={"query": "a red square"}, headers=use).status_code == 200
        assert client.get("/v1/videos/1/media", headers=use).status_code == 200
        assert client.get("/v1/videos/1/thumbnail", headers=use).status_code == 200
        moments = {"moments": [{"video": 1, "start": 0, "end": 1}], "format": "csv"}
        assert client.post("/v1/export", json=moments, headers=use).status_code == 200
        refused = [
            client.post("/v1/videos", json={"root": "new", "path": ""}, headers=use),
            client.patch("/v1/videos/1", json={"add_tags": ["x"]}, headers=use),
            client.delete("/v1/videos/1", headers=use),
            client.post("/v1/jobs/1/cancel", headers=use),
            client.get("/v1/folders", headers=use),
            client.get("/v1/jobs", headers=use),
            client.get("/v1/jobs/1", headers=use),
            client.get("/v1/jobs/1/events", headers=use),
        ]
        assert [answer.status_code for answer in refused] == [403] * 8
    assert client.get("/v1/library", headers=bearer(TOKEN)).json()["roots"] == ["new"]


def test_viewers_see_that_something_is_added_and_not_what(client: TestClient) -> None:
    """Names of files that are being added, and what is wrong with them, are for those who may add."""
    job = client.post("/v1/videos", json={"root": "new", "path": ""}, headers=bearer(TOKEN)).json()["id"]
    shown: dict[str, list[dict[str, Any]]] = {TOKEN: [], VIEW: []}
    while not all(shown.values()):
        for token, seen in shown.items():
            seen += client.get("/v1/activity", headers=bearer(token)).json()["running"]
    client.post(f"/v1/jobs/{job}/cancel", headers=bearer(TOKEN))
    assert {each["folder"] for each in shown[TOKEN]} == {"new"}
    assert {(each["what"], each["folder"], each["file"], each["message"]) for each in shown[VIEW]} == {
        ("add", "", None, "")
    }


def test_wrong_tokens_are_slowed_down(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.post("/v1/session", json={"token": TOKEN}).status_code == 204
    guesses = [client.get("/v1/videos", headers=bearer(f"guess number {n:05}")).status_code for n in range(12)]
    assert guesses == [401] * 10 + [429] * 2
    told = client.post("/v1/session", json={"token": TOKEN})
    assert told.status_code == 429  # also a right one, else guessing would go on
    assert 1 <= int(told.headers["retry-after"]) <= 61
    assert client.get("/v1/videos").status_code == 200  # a session goes on
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert client.get("/v1/videos", headers=bearer(TOKEN)).status_code == 200


def test_a_page_over_https(base: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with serving(base / "library", "--certfile", str(cert), "--keyfile", str(key), "--token", TOKEN) as (url, server):
        assert url.startswith("https://")
        with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=cert)) as client:
            assert client.get("/v1/videos").status_code == 401
            given = client.post("/v1/session", json={"token": TOKEN}, headers={"Origin": url})
            assert "Secure" in given.headers["set-cookie"]
            assert client.get("/v1/videos").status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url.replace('https', 'http')}/v1/health")
        check_health(url)  # as the container's image does
        assert "Traceback" not in stopped(server)


def check_health(url: str) -> None:
    """The health check of the image, with this server's port."""
    text = (Path(__file__).parents[2] / "Dockerfile").read_text("utf-8")
    (line,) = re.findall(r"^    CMD (\[.*\])$", text, re.MULTILINE)
    command = [sys.executable, *json.loads(line.replace("127.0.0.1:7870", url.split("/")[2]))[1:]]
    subprocess.run(command, check=True, timeout=120)


def test_a_handshake_that_never_ends_is_ended(base: Path, certificate: tuple[Path, Path]) -> None:
    """As with headers that never end: a connection costs a file, so nobody may hold one for nothing."""
    cert, key = certificate
    script = """
import sys, prvr.server.http_server as http
http.HEAD_SECONDS = 0.5
from prvr.cli import main
sys.exit(main(sys.argv[1:]))
"""
    words = ["serve", str(base / "library"), "--port", "0", "--certfile", str(cert), "--keyfile", str(key)]
    with subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(re.findall(r":(\d+)/", server.stdout.readline())[0])
        with socket.create_connection(("127.0.0.1", port), 30) as silent:
            assert silent.recv(1) == b""  # it was closed; a timeout would raise
        check_health(f"https://127.0.0.1:{port}")
        server.terminate()


@pytest.mark.parametrize(
    ("host", "proxies", "secure"),
    [
        ("127.0.0.1", ("127.0.0.0/8",), True),
        ("127.0.0.1", (), False),
        ("127.0.0.1", ("10.0.0.1",), False),
        ("::", ("127.0.0.1",), True),  # to such a server, it comes from ::ffff:127.0.0.1
    ],
)
def test_only_a_trusted_proxy_is_believed(base: Path, host: str, proxies: tuple[str, ...], secure: bool) -> None:
    """Behind a proxy that speaks HTTPS, the cookie travels only there, and each client has its own wrong tokens."""
    if host == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    options = ServerOptions(host=host, token=TOKEN, proxies=proxies)
    with running(build_server(create_app(Library.open(base / "library"), options)), host) as url:
        told = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        cookie = httpx.post(f"{url}/v1/session", json={"token": TOKEN}, headers=told).headers["set-cookie"]
        assert ("Secure" in cookie) == secure
        named = httpx.get(f"{url}/v1/health", headers={**told, "Host": "films.example"})  # a proxy passes its name on
        assert named.status_code == (200 if secure else 421)
        for _ in range(11):
            httpx.get(f"{url}/v1/videos", headers={**told, **bearer("not the right token")})
        other = {**told, "X-Forwarded-For": "192.0.2.8", **bearer(TOKEN)}
        assert httpx.get(f"{url}/v1/videos", headers=other).status_code == (200 if secure else 429)
        assert httpx.get(f"{url}/v1/videos", headers={**told, **bearer(TOKEN)}).status_code == 429


@contextmanager
def running(server: Any, host: str = "127.0.0.1") -> Iterator[str]:
    """A server in a thread of this process; yields its address."""
    both = host == "::"
    family = socket.AF_INET6 if both else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=both) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return files
