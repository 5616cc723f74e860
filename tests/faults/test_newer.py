"""What a newer version made is refused, with both versions named, and not changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import prvr
from prvr.library import Library
from prvr.scoring.disk import GalleryError, GalleryRecord, read_gallery, write_gallery
from prvr.training import Run, load_preset
from tests.cli.test_commands import fails
from tests.faults.helpers import files_of


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    about = json.loads(path.read_text("utf-8"))
    edit(about)
    path.write_text(json.dumps(about), encoding="utf-8")


def test_a_library(whole: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lib = tmp_path / "library"
    shutil.copytree(whole.folder, lib)
    change(lib / "library.json", lambda about: about.update(format=7, made_by="9.1.0"))
    before = files_of(lib)
    for words in (("search", "a red square"), ("library", "add", tmp_path), ("library", "verify")):
        said = fails(capsys, *words, "--library", lib)
        assert "format 7, version 9.1.0" in said
        assert f"this is prvr {prvr.__version__}" in said
    assert files_of(lib) == before


def test_a_run(preset: Path, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path / "run")
    run.create(load_preset(str(preset)), world)
    change(run.path / "run.json", lambda about: about.update(format=7, versions={"prvr": "9.1.0"}))
    before = files_of(run.path)
    for words in (("eval", run.path), ("train", preset, "--out", run.path, "--resume")):
        said = fails(capsys, *words)
        assert "format 7, version 9.1.0" in said
        assert f"this is prvr {prvr.__version__}" in said
    assert files_of(run.path) == before


def test_a_gallery(tmp_path: Path) -> None:
    write_gallery(tmp_path / "gallery", iter([GalleryRecord({}, ["v"], {"a": torch.ones(1, 2)})]))
    assert read_gallery(tmp_path / "gallery").ids == ["v"]
    change(tmp_path / "gallery" / "gallery.json", lambda about: about.update(format="prvr-gallery-9", made_by="9.1.0"))
    with pytest.raises(GalleryError, match=r"found 'prvr-gallery-9', made by prvr 9.1.0; expected 'prvr-gallery-2'"):
        read_gallery(tmp_path / "gallery")
