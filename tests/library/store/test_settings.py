"""The settings of a library: what documents and help say of their defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import LibrarySettings
from prvr.media import USUAL_REPEATS

REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"


def test_the_reference_names_the_defaults_of_a_library() -> None:
    usual = LibrarySettings()
    rows = re.findall(r"^\| `--(rate|repeats|local|storage)` \| `?([^|`]+?)`? \|", REFERENCE.read_text("utf-8"), re.M)
    assert dict(rows) == {name: str(getattr(usual, name)) for name in ("rate", "local", "repeats", "storage")}


def test_the_help_of_data_make_names_the_repeats_of_a_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "make", "--help"]) == 0
    text = " ".join(re.sub("[│┃]", " ", capsys.readouterr().out).split())
    assert f"`prvr library add` uses {USUAL_REPEATS:g}" in text
