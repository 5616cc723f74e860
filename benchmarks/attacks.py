"""``python benchmarks/attacks.py``: damage and hostile input at size. Its status is 1 if something did not hold.

    python benchmarks/attacks.py flips --count 1200 --seed 7      # changed bits and cuts; also: lake, cells
    python benchmarks/attacks.py videos --count 1000 --seed 7     # mutated videos, added and searched
    python benchmarks/attacks.py requests --count 5000 --seed 7   # generated requests to a real server
    python benchmarks/attacks.py paths --count 2000 --seed 7      # ways around the token of a real server
    python benchmarks/attacks.py page --count 150 --seed 7        # scripts in all that the page shows, in Chromium

Kills and power cuts: ``PRVR_SEED=7 PRVR_KILLS=1000 python -m pytest -m slow tests/faults/test_kills.py`` and
``PRVR_SEED=7 PRVR_CUTS=10 python -m pytest tests/library/store/test_power.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from prvr.errors import UserError
from prvr.lake import copy_library, open_library
from prvr.library import Library
from prvr.processes import python_command
from prvr.worlds import RENDERED_SIZES, render_world

SENTENCES = ("a red square moves to the left", "a green circle", "something blue falls")
TOKEN, VIEW = "the token of attacks", "the token of viewers"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", choices=("flips", "lake", "cells", "videos", "requests", "paths", "page"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    attacks: dict[str, Callable[[Path, int, random.Random], Iterator[str]]] = {
        "flips": flip_bits,
        "lake": flip_bits_of_a_lake,
        "cells": change_cells,
        "videos": mutate_videos,
        "requests": send_requests,
        "paths": go_around_the_token,
        "page": inject_scripts,
    }
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for outcome in attacks[args.attack](Path(scratch), args.count, random.Random(args.seed)):
            outcomes[outcome] += 1
            if outcome.startswith("FAULT"):
                print(outcome, flush=True)
    print(f"{args.attack}, seed {args.seed}: {sum(outcomes.values()):,} in {time.monotonic() - began:.0f} s")
    for outcome, count in outcomes.most_common():
        print(f"  {count:7,}  {outcome}")
    return int(any(outcome.startswith("FAULT") for outcome in outcomes))


def filled_library(folder: Path) -> Library:
    """Sixteen films with a few tags and lines."""
    films = render_world(folder / "films", RENDERED_SIZES["tiny"])
    for number, film in enumerate(sorted(films.videos.values())[:4]):
        film.with_suffix(".srt").write_text(f"1\n00:00:01,000 --> 00:00:02,000\nparrot number {number}\n", "utf-8")
    library = Library.create(folder / "library", encoder="plain", rate=2.0)
    library.add([films.folder], tags=["drawn"])
    return library


def seen(library: Library) -> tuple[Any, str]:
    """What searches answer, and what they say is left out."""
    found = [library.search(sentence, limit=100) for sentence in SENTENCES]
    hits = [[(hit.video.name, hit.start, hit.end, hit.score) for hit in result] for result in found]
    return hits, library.damage()


@contextlib.contextmanager
def damaged(file: Path, chance: random.Random) -> Iterator[str]:
    """A file with a changed bit; sometimes cut, or with zeros in it as after a bad sector."""
    before = file.read_bytes()
    place, bit = chance.randrange(len(before)), chance.randrange(8)
    content = bytearray(before)
    match chance.choice(("bit", "bit", "bit", "bit", "cut", "zeros")):
        case "cut":
            what = f"cut after {place} of {len(before)} bytes"
            del content[place:]
        case "zeros":
            what = f"zeros from byte {place}"
            content[place : place + 512] = bytes(len(content[place : place + 512]))
        case _:
            what = f"bit {bit} of byte {place}"
            content[place] ^= 1 << bit
    file.write_bytes(content)
    yield f"{file.name}: {what}"
    file.write_bytes(before)


def flip_bits(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    """Every changed bit is found by ``verify``, or changes nothing; no search answers wrongly without saying so."""
    library = filled_library(folder)
    yield from _flips(library.folder, lambda: Library.open(library.folder), count, chance)


def flip_bits_of_a_lake(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    address = str(folder / "films.lance")
    copy_library(filled_library(folder).address, address)
    yield from _flips(Path(address), lambda: open_library(address), count, chance)


def _flips(folder: Path, opened: Callable[[], Library], count: int, chance: random.Random) -> Iterator[str]:
    before, _ = seen(opened())
    for _ in range(count):
        files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
        by_size = chance.random() < 0.5
        (file,) = chance.choices(files, [file.stat().st_size if by_size else 1 for file in files])
        whole = file.read_bytes()
        with damaged(file, chance) as what:
            if file.read_bytes() == whole:
                yield "zeros where zeros were"
                continue
            try:
                answers, note = seen(opened())
            except UserError:
                yield "a sentence"
                continue
            except BaseException as problem:
                yield f"FAULT {what}: {problem!r} ({_place(problem)})"
                continue
            try:
                found = not opened().verify().ok
            except UserError:
                found = True
            kind = "found by verify" if found else "in unused space"
            if answers == before:
                yield f"same answers, {kind}"
            elif note and found:
                yield "left out, and said so"
            else:
                yield f"FAULT {what}: other answers, {kind}, note {note!r}"


def _place(problem: BaseException) -> str:
    """Where in our code an exception began."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if "prvr" in frame.filename]
    return ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-3:])


def change_cells(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    """Values of wrong types and sizes in the catalogue, as another program might write them: no traceback."""
    library = filled_library(folder)
    for number in range(count):
        copy = folder / f"copy {number}"
        shutil.copytree(library.folder, copy)
        what = _change_cell(copy / "catalogue.sqlite", chance)
        outcomes = []
        for ask in (seen, Library.verify, Library.videos, Library.status, Library.summary, Library.repair):
            try:
                ask(Library.open(copy))
                outcomes.append("an answer")
            except UserError:
                outcomes.append("a sentence")
            except BaseException as problem:
                outcomes.append(f"FAULT {what}: {ask.__name__} {problem!r} ({_place(problem)})")
        faults = [outcome for outcome in outcomes if outcome.startswith("FAULT")]
        yield from faults or (f"{outcomes.count('a sentence')} of {len(outcomes)} commands say a sentence",)
        shutil.rmtree(copy)


def _change_cell(file: Path, chance: random.Random) -> str:
    values = (None, -1, 0, 2**62, -(2**62), 1e300, float("inf"), "", "x", "[]", "{}", "null", '{"a": [[[]]]}',
              b"\xff\x00", "a" * 100_000, "\x1b[2J", "../../etc/passwd", 0.5)  # fmt: skip
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA writable_schema = ON")
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(100):
            table = chance.choice([name for name in tables if not name.startswith("sqlite")])
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            with contextlib.suppress(sqlite3.Error):
                rows = [*db.execute(f"SELECT * FROM {table}")]
                if not rows:
                    continue
                row, column, value = chance.choice(rows), chance.choice(columns), chance.choice(values)
                same = " AND ".join(f"{name} IS ?" for name in columns)
                if db.execute(f"UPDATE {table} SET {column} = ? WHERE {same}", (value, *row)).rowcount > 0:
                    db.commit()
                    return f"{table}.{column} = {value!r:.40}"
    return "nothing"


def mutate_videos(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    """Films with changed, cut, doubled and moved bytes, fifty at a time: each is added or named as failed."""
    films = sorted(render_world(folder / "films", RENDERED_SIZES["tiny"]).videos.values())
    library = Library.create(folder / "library", encoder="plain", rate=1.0)
    for first in range(0, count, 50):
        batch = folder / f"batch {first}"
        batch.mkdir()
        for number in range(first, min(first + 50, count)):
            (batch / f"{number}.{chance.choice(('mp4', 'mkv', 'avi'))}").write_bytes(
                _mutated(bytearray(chance.choice(films).read_bytes()), chance)
            )
        command = python_command("prvr", "library", "add", str(batch), "--library", str(library.folder))
        began = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            yield f"FAULT batch {first} takes more than five minutes"
            continue
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            yield f"FAULT batch {first}: status {done.returncode}: {done.stderr[-500:]}"
        if time.monotonic() - began > 120:
            yield f"FAULT batch {first} took {time.monotonic() - began:.0f} s"
        states = Counter(video.state for video in library.videos() if video.path.parent == batch)
        yield from ["added"] * states["ok"]
        yield from ["failed, with a reason"] * states["failed"]
        if states.total() + done.stdout.count("same content") < len([*batch.iterdir()]):
            yield f"FAULT batch {first}: {dict(states)}, {done.stdout[-500:]}"
        shutil.rmtree(batch)
    found = library.verify()
    if not found.ok:
        yield f"FAULT {found.problems[:3]}"
    library.search(SENTENCES[0])


def _mutated(content: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 3, 20, 200))):
        place, size = chance.randrange(len(content)), chance.choice((1, 2, 4, 16, 256))
        match chance.randrange(6):
            case 0:
                content[place] ^= 1 << chance.randrange(8)
            case 1:
                content[place : place + size] = chance.randbytes(size)
            case 2:
                content[place : place + size] = chance.choice((b"\xff", b"\x00", b"\x7f")) * size
            case 3:
                del content[place : place + size]
            case 4:
                content[place:place] = content[-size:]
            case _ if chance.random() < 0.1:
                del content[max(64, place) :]
        if len(content) < 64:
            break
    return bytes(content)


@contextlib.contextmanager
def served(library: Library, *options: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """The address of a real server, and what says whether it is alive and unhurt: "", or what is wrong."""
    command = python_command("prvr", "serve", library.address, "--port", "0", *options)
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        assert server.stdout is not None
        address = re.findall(r"http://[\d.]+:\d+", server.stdout.readline())[0]

        def problem() -> str:
            errors.seek(0)
            said = errors.read()
            if server.poll() is not None:
                return f"the server has ended with {server.returncode}: {said[-500:]}"
            return said[-1000:] if "Traceback" in said else ""

        try:
            yield address, problem
        finally:
            server.kill()


def send_requests(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    """Requests made from the server's own description, with values that do not fit, and raw bytes."""
    library = filled_library(folder)
    with served(library, "--allow-root", str(folder / "films")) as (address, problem):
        with httpx.Client(base_url=address, timeout=60) as client:
            paths = client.get("/v1/openapi.json").json()["paths"]
            routes = [(method, path) for path, methods in paths.items() for method in methods if "events" not in path]
            for number in range(count):
                if number % 10 == 0:
                    _send_raw(address, chance)
                    yield "raw bytes"
                    continue
                method, path = chance.choice(routes)
                if method in ("delete", "patch") and chance.random() < 0.9:
                    continue  # so that something is left to ask about
                path = re.sub(r"\{[^}]*\}", lambda _: quote(str(_value(chance)), safe="") or "1", path)
                body = chance.choice((None, _object(chance), _value(chance)))
                began = time.monotonic()
                try:
                    answer = client.request(
                        method.upper(),
                        address + path,
                        params={name: str(_value(chance)) for name in chance.sample(_NAMES, 2)},
                        content=None if body is None else json.dumps(body).encode(),
                        headers={"Content-Type": chance.choice(("application/json", "text/plain", "")) or "x"},
                    )
                    what = f"{method} {path} {str(body)[:200]}"
                    yield str(answer.status_code) if answer.status_code < 500 else f"FAULT {answer.status_code}: {what}"
                except (httpx.InvalidURL, UnicodeError, ValueError):
                    yield "not a request"
                except httpx.TransportError as failed:
                    yield f"FAULT {method} {path}: {failed!r}"
                if time.monotonic() - began > 20:
                    yield f"slow: {method} {path} {time.monotonic() - began:.0f} s"
            if not client.post("/v1/search", json={"query": SENTENCES[0]}).json()["hits"]:
                yield "FAULT nothing is found any more"
        if wrong := problem():
            yield f"FAULT {wrong}"


_NAMES = [
    "query",
    "limit",
    "offset",
    "time",
    "start",
    "end",
    "width",
    "track",
    "folder",
    "tag",
    "state",
    "order",
    "like",
]


def _value(chance: random.Random) -> Any:
    return chance.choice((
        0, 1, 2, -1, 10**18, 1e308, "NaN", float("inf"), "", "a red square", "../../etc/passwd", "%2e%2e/", "\x00",
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "é" * 300, "<script>alert(1)</script>", True, None,
        [], {}, [[]] * 3, "1@2-1", "9" * 400, chance.randbytes(8).hex(), " ", "frames", "new", "-0", "1e9",
    ))  # fmt: skip


def _object(chance: random.Random) -> dict[str, Any]:
    names = [*_NAMES, "filters", "moments", "group_by", "picture", "min_confidence", "root", "path", "tags", "add_tags",
             "trace", "approximate", "token", "format", "retry"]  # fmt: skip
    found = {name: _value(chance) for name in chance.sample(names, chance.randrange(5))}
    return {"query": "a red square", **found} if chance.random() < 0.5 else found


def _send_raw(address: str, chance: random.Random) -> None:
    """Bytes that are hardly HTTP."""
    host, port = address.removeprefix("http://").split(":")
    head = chance.choice(
        (b"GET / HTTP/1.1\r\n", b"POST /v1/search HTTP/1.1\r\nContent-Length: 99999\r\n", b"\x16\x03\x01")
    )
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as sent:
        sent.sendall(head + chance.randbytes(chance.choice((1, 50, 2000))) + b"\r\n\r\n")
        sent.settimeout(0.05)
        sent.recv(100)


def go_around_the_token(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    """Every route with every kind of credential and odd spellings of the path: nothing is told without the token."""
    library = filled_library(folder)
    options = ("--token", TOKEN, "--view-token", VIEW, "--allow-root", str(folder / "films"))
    public = {"/v1/health", "/v1/session", "/v1/openapi.json", "/v1/docs"}
    with served(library, *options) as (address, problem):
        host, port = address.removeprefix("http://").split(":")
        paths = httpx.get(f"{address}/v1/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).json()["paths"]
        routes = [
            (method.upper(), re.sub(r"\{[^}]*\}", "1", path))
            for path, methods in paths.items()
            for method in methods
            if path not in public
        ] + [("GET", "/metrics")]
        for _ in range(count):
            method, path = chance.choice(routes)
            sent = _odd(path, chance)
            credential = chance.choice(_credentials(chance))
            request = f"{method} {sent} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{credential}\r\n"
            with socket.create_connection((host, int(port)), 30) as connection:
                connection.sendall(request.encode("latin-1"))
                answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            status = answer[9:12].decode("latin-1")
            safe = status in ("400", "401", "404", "405", "414", "421", "429") or (status in ("301", "307", "308"))
            yield f"refused: {status}" if safe else f"FAULT {status}: {request!r} → {answer[-200:]!r}"
        if wrong := problem():
            yield f"FAULT {wrong}"


def _odd(path: str, chance: random.Random) -> str:
    """Another spelling of a path."""
    spelled = (
        path, f"/{path}", f"{path}/", path.replace("/v1/", "/v1//"), path.replace("/v1/", "/v1/./"), path.upper(),
        path.replace("/v1/", "/v1/health/../"), path.replace("/v1/", "/static/../v1/"), path.replace("/", "/%2f", 1),
        path.replace("v1", "%76%31"), f"{path};x=1", f"{path}%00", f"{path}?token={TOKEN}",
        f"http://127.0.0.1{path}", path.replace("/v1/", "/v1%2f"), path.replace("/", "\\"), f"{path}#", f"/x/..{path}",
    )  # fmt: skip
    return chance.choice(spelled)


def _credentials(chance: random.Random) -> tuple[str, ...]:
    until = int(time.time()) + 1000
    forged = f"all.{until}.{chance.randbytes(32).hex()}"
    return (
        "", "Authorization: Bearer \r\n", f"Authorization: Basic {TOKEN}\r\n", f"Cookie: prvr_session={TOKEN}\r\n",
        f"Cookie: prvr_session={forged}\r\n", f"Cookie: prvr_session=all.{until}.\r\n", f"X-Token: {TOKEN}\r\n",
        f"Cookie: prvr_session=view.{until}.{forged}\r\n", "Cookie: prvr_session=..\r\n", f"Token: {TOKEN}\r\n",
        "X-Forwarded-For: 127.0.0.1\r\n", "X-Original-URL: /v1/health\r\n", "X-HTTP-Method-Override: GET\r\n",
    )  # fmt: skip


def inject_scripts(folder: Path, count: int, chance: random.Random) -> Iterator[str]:
    """Whatever the files, tags, lines, searches and addresses of the page say, it is shown as text."""
    from page_attack import fill_with_scripts, scripts, watch_the_page  # needs a browser

    film, payloads = min(render_world(folder / "one", RENDERED_SIZES["tiny"]).videos.values()), scripts(chance, count)
    tags = fill_with_scripts(folder / "films", film, payloads)
    library = Library.create(folder / "library", encoder="plain", rate=1.0)
    library.add([folder / "films"])
    for video, of_video in zip(library.videos(), tags, strict=True):
        library.change_tags(video.id, add=of_video)
    with served(library, "--allow-root", str(folder / "films")) as (address, problem):
        yield from watch_the_page(address, payloads)
        if wrong := problem():
            yield f"FAULT {wrong}"


if __name__ == "__main__":
    sys.exit(main())
