"""The wheel holds everything that the package needs, and nothing else."""

from __future__ import annotations

import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

from tests.packaging.conftest import ROOT

SOURCE = ROOT / "src" / "prvr"


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    expected = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == expected
    assert {"prvr/py.typed", "prvr/presets/dreamprvr/own.toml", "prvr/server/page/index.html"} <= inside


def test_the_wheel_tells_what_it_needs(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = Parser().parsestr(archive.read(next(name for name in names if name.endswith("/METADATA"))).decode())
        commands = archive.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
    assert about["Version"] == project["version"]
    assert {*about.get_all("Provides-Extra", [])} == project["optional-dependencies"].keys()
    assert "prvr = prvr.cli:main" in commands
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert wheel.name == f"prvr-{project['version']}-py3-none-any.whl"
