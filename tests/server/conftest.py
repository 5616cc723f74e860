"""A served library of small films."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from prvr.library import Library
from prvr.server import ServerOptions, build_server, create_app
from prvr.worlds import RenderConfig, RenderedWorld, render_world
from tests.server.browsing import FLAGS, PATIENCE, WIDE

RATE = 1.0


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Films that are large enough for screenshots."""
    config = RenderConfig(train=1, val=1, test=10, seconds=(7.5, 9.5), width=320, height=180, fps=8.0)
    return render_world(tmp_path_factory.mktemp("rendered") / "films", config)


@pytest.fixture(scope="session")
def base(world: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library (films/, library/) and films that are not in it yet (new/); read only."""
    folder = tmp_path_factory.mktemp("served")
    paths = sorted(world.videos.values())
    for name, videos in (("films", paths[:-2]), ("new", paths[-2:])):
        (folder / name).mkdir()
        for path in videos:
            shutil.copy2(path, folder / name)
    (folder / "new" / "broken.mp4").write_bytes(b"no film at all" * 100)
    (folder / "films" / "inner").mkdir()
    moved = sorted((folder / "films").glob("*.mp4"))[0]
    moved.rename(folder / "films" / "inner" / moved.name)
    Library.create(folder / "library", encoder="plain", rate=RATE).add([folder / "films"], tags=["drawn"])
    return folder


@dataclass(frozen=True)
class Served:
    """A library, its folder and a client of its server."""

    folder: Path
    library: Library
    client: TestClient


@pytest.fixture
def served(base: Path, tmp_path: Path) -> Iterator[Served]:
    """A copy of the library that a test may change. Videos may be added from ``new/``."""
    shutil.copytree(base / "library", tmp_path / "library")
    shutil.copytree(base / "new", tmp_path / "new")
    library = Library.open(tmp_path / "library")
    options = ServerOptions(roots=(tmp_path / "new",))
    with TestClient(create_app(library, options), base_url="http://localhost") as client:
        yield Served(tmp_path, library, client)


@contextmanager
def serving(base: Path, folder: Path) -> Iterator[str]:
    """The address of a real server on a free port, with a copy of the library in a folder."""
    shutil.copytree(base / "library", folder / "library")
    shutil.copytree(base / "new", folder / "new")
    app = create_app(Library.open(folder / "library"), ServerOptions(roots=(folder / "new",)))
    listening = socket.create_server(("127.0.0.1", 0))
    server = build_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(60)
    listening.close()


@pytest.fixture
def own_address(base: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a server whose library a test may change."""
    with serving(base, tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def address(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server for all tests of a file; do not change its library."""
    with serving(base, tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The system's Chromium; `make browser` installs it on Debian."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if path is None:
        pytest.skip("Chromium is not installed: `make browser` installs it on Debian, or set CHROMIUM to its path")
    return path


@pytest.fixture(scope="module")  # while it is open, no other test in this process can run an event loop
def browser(browser_path: str) -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install 'prvr[dev]'"
    )
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser_path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with watched_page(browser, address) as opened:
        yield opened


@pytest.fixture
def own_page(browser: Any, own_address: str) -> Iterator[Any]:
    """The page of a library that a test may change."""
    with watched_page(browser, own_address) as opened:
        yield opened


@contextmanager
def watched_page(browser: Any, address: str) -> Iterator[Any]:
    """A page that must raise no error and ask nothing of other servers."""
    context = browser.new_context(viewport=WIDE, base_url=address)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE * 1000)
    errors: list[str] = []
    foreign: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(address) else None)
    opened.goto("/")
    opened.wait_for_selector("#holds[data-videos]")
    yield opened
    context.close()
    assert errors == []
    assert foreign == []


@pytest.fixture(scope="session")
def sentence(world: RenderedWorld) -> str:
    return world.queries["test"][0].sentence
