"""What clients must not reach: other files, other sites' requests, access without the token."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from fastapi.responses import PlainTextResponse
from fastapi.testclient import TestClient

from prvr.library import LibraryError
from prvr.media import ExpectedFile
from prvr.server import ServerOptions, create_app
from prvr.server.guard import Guard
from prvr.server.metrics import Metrics
from prvr.server.problems import Problem
from tests.server.conftest import Served
from tests.server.test_api import events, sabotage

TOKEN = "a token of length"


@pytest.mark.parametrize(
    "url",
    [
        "/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page/%252e%252e/app.py", "/page/..\\app.py",
        "/page//etc/passwd", "/page/%2fetc%2fpasswd", "/page/app.js%00.html", "/../../etc/passwd",
        "/v1/videos/..%2f..%2fetc%2fpasswd/media", "/v1/videos/%2e%2e/media", "/v1/videos/1%00/media",
        "/v1/videos/1/../../../etc/passwd", "/v1/videos/１/media/../", "/page/", "/page/.",
    ],
)  # fmt: skip
def test_no_file_is_reached_by_its_name(served: Served, url: str) -> None:
    answer = served.client.get(url, follow_redirects=False)
    assert answer.status_code in (404, 405, 422, 307), url
    assert "root:" not in answer.text
    assert "def " not in answer.text


def test_a_file_that_was_swapped_is_not_served(served: Served) -> None:
    video = served.library.videos()[1]
    copy = served.folder / "new" / "copy.mp4"
    shutil.copy2(video.path, copy)
    with open(copy, "ab") as file:  # not the same content as the original
        file.write(b"!")
    served.library.add([copy])
    number = next(v.id for v in served.library.videos() if v.path.name == "copy.mp4")
    url = f"/v1/videos/{number}/media"
    assert served.client.get(url).status_code == 200
    secret = served.folder / "secret.txt"
    secret.write_text("secret")
    copy.unlink()
    assert served.client.get(url).status_code == 410
    copy.symlink_to(secret)
    answer = served.client.get(url)
    assert answer.status_code == 409
    assert "secret" not in answer.text
    assert str(served.folder) not in answer.text
    copy.unlink()
    os.mkfifo(copy)
    assert served.client.get(url).status_code == 409


@pytest.mark.parametrize(
    "path",
    ["..", "../films", "/etc", "inner/../../library", "link", "link/passwd", "a\\..\\b", "%2e%2e", "out.mp4", "..."],
)
def test_adding_stays_within_the_roots(served: Served, path: str) -> None:
    (served.folder / "new" / "link").symlink_to("/etc")
    (served.folder / "new" / "out.mp4").symlink_to(served.library.videos()[0].path)
    answer = served.client.post("/v1/videos", json={"root": "new", "path": path})
    assert answer.status_code in (403, 404)
    assert str(served.folder) not in answer.text
    assert served.client.get("/v1/folders", params={"root": "new", "path": path}).status_code in (403, 404)
    assert served.client.get("/v1/jobs").json()["jobs"] == []


def test_links_out_of_a_root_are_left_out_of_a_folder(served: Served) -> None:
    shutil.rmtree(served.folder / "new")
    (served.folder / "new").mkdir()
    (served.folder / "new" / "out.mp4").symlink_to(served.library.videos()[0].path)
    answer = served.client.post("/v1/videos", json={"root": "new"})
    assert answer.status_code == 404
    assert "leads out" in answer.json()["detail"]


def test_a_link_to_itself_is_left_out_of_a_folder(served: Served) -> None:
    (served.folder / "new" / "loop.mp4").symlink_to("loop.mp4")
    job = served.client.post("/v1/videos", json={"root": "new", "path": ""})
    assert job.status_code == 202
    report = events(served.client.get(job.json()["events_url"]).text)[-1]["report"]
    assert isinstance(report, dict)
    assert (report["added"], list(report["failed"])) == (2, ["broken.mp4"])
    assert served.client.post("/v1/videos", json={"root": "new", "path": "loop.mp4"}).status_code == 404


def test_a_folder_of_nothing_but_a_link_to_itself(served: Served) -> None:
    shutil.rmtree(served.folder / "new")
    (served.folder / "new").mkdir()
    (served.folder / "new" / "loop.mp4").symlink_to("loop.mp4")
    answer = served.client.post("/v1/videos", json={"root": "new"})
    assert answer.status_code == 404
    assert "cannot be followed: 1." in answer.json()["detail"]


def test_names_that_are_too_long_do_not_exist(served: Served) -> None:
    name = "a" * 300
    assert served.client.get("/v1/folders", params={"root": "new", "path": name}).status_code == 404
    assert served.client.post("/v1/videos", json={"root": "new", "path": name}).status_code == 404


def test_names_that_are_not_text_stop_neither_the_list_of_folders_nor_a_job(served: Served) -> None:
    new = os.fsencode(served.folder / "new")
    try:
        os.mkdir(new + b"/caf\xe9")
    except OSError:
        pytest.skip("this system has no such names")
    os.mkdir(new + b"/back\\slash")
    (served.folder / "new" / "café 1% #?").mkdir()
    film = sorted((served.folder / "new").glob("*.mp4"))[-1]
    shutil.copy(film, new + b"/film\xe9.mp4")
    listed = served.client.get("/v1/folders?root=new").json()["folders"]
    assert [folder["path"] for folder in listed] == ["", "café 1% #?"]
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    assert events(served.client.get(job["events_url"]).text)[-1]["state"] == "done"
    (ended,) = served.client.get("/v1/jobs").json()["jobs"]
    assert ended["report"]["added"] == 2
    assert "not valid UTF-8" in ended["report"]["failed"]["film\\udce9.mp4"]


def test_a_root_whose_name_is_not_text_has_an_escaped_one(served: Served, tmp_path: Path) -> None:
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    except OSError:
        pytest.skip("this system has no such names")
    options = ServerOptions(roots=(tmp_path / os.fsdecode(b"caf\xe9"),))
    with TestClient(create_app(served.library, options), base_url="http://localhost") as client:
        (folder,) = client.get("/v1/folders").json()["folders"]
        assert folder["root"] == "caf\\udce9"
        assert client.get("/v1/library").json()["roots"] == [folder["root"]]


def test_subtitles_that_lead_out_of_a_root_keep_their_video_out(served: Served) -> None:
    film = min(path for path in (served.folder / "new").glob("*.mp4") if path.name != "broken.mp4")
    secret = served.folder / "secret.srt"
    secret.write_text("1\n00:00:01,000 --> 00:00:02,000\nthe secret\n")
    film.with_suffix(".en.srt").symlink_to(secret)
    answer = served.client.post("/v1/videos", json={"root": "new", "path": film.name})
    assert answer.status_code == 404
    assert "leads out" in answer.json()["detail"]


def test_every_response_has_security_headers(served: Served) -> None:
    for url in ("/", "/v1/health", "/nowhere", "/page/app.js"):
        headers = served.client.get(url).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_sizes_are_limited(served: Served) -> None:
    big = b'{"root": "' + b"x" * 70_000 + b'"}'
    json = {"Content-Type": "application/json"}
    assert served.client.post("/v1/videos", content=big, headers=json).status_code == 413
    chunked = served.client.post("/v1/videos", content=iter([big[:40_000], big[40_000:]]), headers=json)
    assert chunked.status_code == 413
    assert served.client.post("/v1/search", content=big, headers=json).status_code == 422  # it may hold a picture
    huge = b'{"picture": "' + b"x" * (13 << 20) + b'"}'
    assert (
        served.client.post("/v1/search", content=iter([huge[:40_000], huge[40_000:]]), headers=json).status_code == 413
    )
    assert served.client.get("/v1/videos?folder=" + "x" * 17000).status_code == 414
    deep = b'{"query": ' + b"[" * 20_000 + b"}"
    assert served.client.post("/v1/search", content=deep, headers=json).status_code in (400, 422)


def test_large_bodies_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prvr.server.guard._LARGE_BODIES", 1)
    monkeypatch.setattr("prvr.server.guard._TURN_SECONDS", 0.1)

    async def check() -> None:
        begun, answering = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            body = (await receive())["body"]
            if len(body) > 70_000:
                begun.set()
                await answering.wait()
            await PlainTextResponse(str(len(body)))(scope, receive, send)

        guarded = httpx.ASGITransport(Guard(app, ServerOptions(), Metrics()))
        async with httpx.AsyncClient(transport=guarded, base_url="http://localhost") as client:
            first = asyncio.ensure_future(client.post("/v1/search", content=b"x" * 100_000))
            await begun.wait()
            refused = await client.post("/v1/search", content=b"x" * 100_000)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert (await client.post("/v1/search", content=b"x" * 60_000)).text == "60000"
            answering.set()
            assert (await first).text == "100000"
            assert (await client.post("/v1/search", content=b"x" * 100_000)).status_code == 200

    asyncio.run(check())


def raw(address: str, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send bytes and return the response; b"" if the server closes the connection without one."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        with suppress(ConnectionError):  # the server may close the connection before the end
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        response = b""
        with suppress(ConnectionError):
            while more := connection.recv(65536):
                response += more
                if b"\r\n\r\n" in response:
                    break
        return response


def test_malformed_requests_are_refused(address: str) -> None:
    host = address.removeprefix("http://").encode()
    get = b"GET /v1/health HTTP/1.1\r\nHost: " + host + b"\r\n"
    assert raw(address, get + b"\r\n").startswith(b"HTTP/1.1 200")
    assert raw(address, get + b"X: " + b"x" * 40_000 + b"\r\n\r\n")[9:12] in (
        b"400",
        b"431",
    )  # depends on how it is split
    assert raw(address, get + b"X: " + b"x" * 300_000)[9:12] == b"400"  # headers without an end
    assert raw(address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(address, b"GET /../../etc/passwd HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").startswith(b"HTTP/1.1 404")
    both = b"POST /v1/search HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b" 200 " not in raw(address, both + b"0\r\n\r\n")
    slash = get.replace(b" HTTP", b"/?a=\x80 HTTP")  # Starlette decodes the address to redirect it
    assert raw(address, slash + b"\r\n").startswith(b"HTTP/1.1 400")
    assert raw(address, get.replace(host, b"evil.example") + b"\r\n").startswith(b"HTTP/1.1 421")
    assert raw(address, get + b"\r\n").startswith(b"HTTP/1.1 200")  # the server still runs


def test_slow_connections_are_closed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = address.removeprefix("http://").encode()
    with monkeypatch.context() as patch:  # one limit at a time, because a busy machine may exceed the other
        patch.setattr("prvr.server.protocol.HEAD_SECONDS", 0.5)
        assert raw(address) == b""  # connects, and sends nothing
        assert raw(address, *(b"GET /v1/health HTTP/1.1\r\nHost: " + host)[:12].split(), pause=0.2) == b""
    head = b"POST /v1/search HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 100\r\n\r\n"
    with monkeypatch.context() as patch:
        patch.setattr("prvr.server.guard.BODY_SECONDS", 0.5)
        assert raw(address, head, b"{").startswith(b"HTTP/1.1 408")
    fast = b"GET /v1/health HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
    assert raw(address, fast[:10], fast[10:], pause=0.1).startswith(b"HTTP/1.1 200")


def test_other_sites_and_other_host_names_are_refused(served: Served) -> None:
    body = {"query": "red"}
    rebound = served.client.get("/v1/videos", headers={"Host": "evil.example"})
    assert rebound.status_code == 421
    foreign = served.client.post("/v1/search", json=body, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403
    own = served.client.post("/v1/search", json=body, headers={"Origin": "http://localhost"})
    assert own.status_code == 200
    form = served.client.post("/v1/search", content=b'{"query": "red"}', headers={"Content-Type": "text/plain"})
    assert form.status_code in (415, 422)


def test_a_link_that_appears_while_a_job_waits_is_not_followed(
    served: Served, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check of a root and the opening of its files, one becomes a link to a film elsewhere."""
    film = min(path for path in (served.folder / "new").glob("*.mp4") if path.name != "broken.mp4")
    lines = film.with_suffix(".srt")
    lines.write_text("1\n00:00:01,000 --> 00:00:02,000\nhello\n")
    other = next(path for path in (served.folder / "new").glob("*.mp4") if path.name not in (film.name, "broken.mp4"))
    secret = served.folder / "secret.srt"
    secret.write_text("1\n00:00:01,000 --> 00:00:02,000\nsecret\n")
    outside = next((base / "films").glob("*.mp4"))
    swaps = {other: outside, lines: secret}
    code = "".join(f"    os.unlink({str(a)!r}); os.symlink({str(b)!r}, {str(a)!r})\n" for a, b in swaps.items())
    sabotage(served, monkeypatch, code)
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    report = events(served.client.get(job["events_url"]).text)[-1]["report"]
    assert isinstance(report, dict)
    assert "leads out of the folders" in report["failed"][other.name]
    assert "leads out of the folders" in report["damaged"][film.name]
    assert {hit.matched for hit in served.library.search("secret")} <= {None}


def test_a_film_that_became_a_link_out_of_its_root_is_not_shown(served: Served) -> None:
    """Also where the other file has the same size and time."""
    film = min(path for path in (served.folder / "new").glob("*.mp4") if path.name != "broken.mp4")
    served.library.add([film])
    number = next(video.id for video in served.library.videos() if video.path == film)
    urls = [f"/v1/videos/{number}/{what}" for what in ("media", "thumbnail?time=1", "clip?start=1&end=2")]
    assert [served.client.get(url).status_code for url in urls] == [200, 200, 200]
    elsewhere = served.folder / film.name
    film.rename(elsewhere)
    film.symlink_to(elsewhere)
    moments = {"moments": [{"video": number, "start": 1, "end": 2}], "format": "film"}
    assert [served.client.get(url).status_code for url in urls] == [409, 409, 409]
    assert served.client.post("/v1/export", json=moments).status_code == 409
    film.unlink()
    elsewhere.rename(film)
    os.utime(film)
    assert [served.client.get(url).status_code for url in urls] == [409, 409, 409]  # its time is another
    film.unlink()
    assert [served.client.get(url).status_code for url in urls] == [410, 410, 410]


def test_a_decoder_opens_the_file_that_was_checked(served: Served, tmp_path: Path) -> None:
    """It checks again, because the file may have changed since the server looked."""
    video = served.library.videos("ok")[0]
    state = served.client.app.state.prvr  # type: ignore[attr-defined]
    wrong = ExpectedFile(video.size, video.mtime + 1)

    async def ask() -> None:
        for ask in (
            state.thumbnails.get(video, wrong, 1.0, 64),
            state.clips.get(video, wrong, 1.0, 2.0),
            state.clips.get(video, ExpectedFile(video.size, video.mtime, (str(tmp_path / "new"),)), 1.0, 2.0),
        ):
            with pytest.raises(Problem, match=r"has changed|leads out"):
                await ask
        await state.thumbnails.close()
        await state.clips.close()

    asyncio.run(ask())


def test_every_route_needs_the_token(served: Served, base: Path) -> None:
    options = ServerOptions(host="0.0.0.0", token=TOKEN)
    with TestClient(create_app(served.library, options), base_url="http://films.example") as client:
        schema = served.client.get("/v1/openapi.json").json()["paths"]
        for path, methods in schema.items():
            if path in ("/v1/health", "/v1/session"):
                continue
            for method in methods:
                url = path.replace("{video_id}", "1").replace("{job_id}", "1")
                answer = client.request(method, url, json={} if method == "post" else None)
                assert answer.status_code == 401, (method, path)
        assert client.get("/").status_code == 200
        assert client.get("/v1/openapi.json").status_code == 401
        assert client.get("/v1/videos", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/v1/videos", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert client.post("/v1/session", json={"token": "wrong"}).status_code == 401
        assert client.get("/v1/videos").status_code == 401
        given = client.post("/v1/session", json={"token": TOKEN})
        assert given.status_code == 204
        assert "HttpOnly" in given.headers["set-cookie"]
        assert client.get("/v1/videos").status_code == 200


def test_an_error_of_the_library_is_shown_without_paths(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = LibraryError("")

    def search_many(requests: object) -> NoReturn:
        raise problem

    monkeypatch.setattr(served.library, "search_many", search_many)
    with TestClient(create_app(served.library, ServerOptions()), base_url="http://localhost") as client:
        for message, shown in (
            (
                f"{served.library.folder} is damaged: run prvr library verify",
                "library is damaged: run prvr library verify.",
            ),
            ("/etc/secret is damaged", "The library cannot do this."),
        ):
            problem = LibraryError(message)
            answer = client.post("/v1/search", json={"query": "a red square"})
            assert (answer.status_code, answer.json()["detail"]) == (409, shown)
