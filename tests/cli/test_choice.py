"""Which encoder a new library gets: the prepared one, an answer at a terminal, or an error that names both ways."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import PLAIN_LIMITS, Library, LibraryError
from prvr.media import presets
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.cli.test_library import said
from tests.media.encoders.conftest import save_pair

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world: RenderedWorld = render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])
    return min(world.videos.values())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache, without any model."""
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard input is a terminal; what is written to this handle is typed there."""
    typed, there = os.openpty()
    with os.fdopen(there, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield typed
    os.close(typed)


def test_a_script_is_told_both_commands(cache: Path, film: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "library", "add", str(film), code=1)
    assert "`prvr prepare siglip2`" in text
    assert "1,540 MB" in text
    assert "`--encoder plain`" in text
    assert PLAIN_LIMITS in text
    assert not (cache.parent / "library").exists()
    with pytest.raises(LibraryError, match=r'prvr prepare siglip2.*encoder="plain"'):
        Library.create(cache.parent / "other")


def test_the_prepared_encoder_is_taken_and_named(cache: Path, film: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    for name in ("clip-base", "siglip2"):  # of several, the first of the list
        preset = next(preset for preset in presets() if preset.name == name)
        save_pair(cache / f"models--{preset.hub.replace('/', '--')}" / "snapshots" / (preset.revision or "1"), "siglip")
    text = said(capsys, "library", "add", str(film))
    assert "encoder: siglip2, which is prepared" in text
    assert PLAIN_LIMITS not in text
    assert "encoder siglip2" in said(capsys, "library", "status")
    assert Library.create(cache.parent / "other").settings.encoder == "siglip2"


def test_a_terminal_is_asked_once(cache: Path, film: Path, terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(terminal, b"neither\n")
    assert "nothing was chosen" in said(capsys, "library", "add", str(film), code=1)
    assert not (cache.parent / "library").exists()
    os.write(terminal, b"2\n")
    text = said(capsys, "library", "add", str(film))
    assert "1 siglip2" in text
    assert "about 1,540 MB to download" in text
    assert f"2 plain: nothing to download, but it {PLAIN_LIMITS}" in text
    assert "1 unchanged" in said(capsys, "library", "add", str(film))  # nothing is asked, or this would wait


def test_every_place_says_what_plain_cannot_do(cache: Path, film: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = f"This library {PLAIN_LIMITS}, because its encoder is plain; `prvr library reindex --encoder siglip2`"
    assert sentence in said(capsys, "library", "add", str(film), "--encoder", "plain")
    assert sentence in said(capsys, "library", "status")
    assert sentence in said(capsys, "search", "red")
    for page in ("README.md", "docs/search.md"):
        assert PLAIN_LIMITS in " ".join((ROOT / page).read_text("utf-8").replace("*", "").split()), page


def test_reindex_says_what_it_did(cache: Path, film: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["library", "add", str(film), "--encoder", "plain"]) == 0
    assert "nothing to change was given" in said(capsys, "library", "reindex", code=1)
    assert "prvr prepare" in said(capsys, "library", "reindex", "--encoder", "siglip2", code=1)
    assert "`prvr library reindex --rate 2.0`" in said(capsys, "library", "add", str(film), "--rate", "2", code=1)
    assert "1 video encoded anew" in said(capsys, "library", "reindex", "--rate", "2")
    assert "nothing to do" in said(capsys, "library", "reindex", "--rate", "2")
    assert "(2 per second" in said(capsys, "library", "status")
