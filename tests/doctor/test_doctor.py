"""What `prvr doctor` finds about a machine, its packages, encoders and a library."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from prvr.cli import main
from prvr.doctor import (
    encoding_types,
    examine,
    find_encoders,
    installed_packages,
    licence_of,
    read_requirements,
    uninstalled_extras,
)
from prvr.library import Library
from prvr.media import EngineChoice
from prvr.media.encoders.choice import remember_choice
from prvr.media.encoders.hashes import HASHES_FILE
from prvr.processor import cpu_name


def test_every_core_package_is_there_with_a_version_and_a_licence() -> None:
    found = {package.name: package for package in installed_packages(read_requirements())}
    for name in ("torch", "numpy", "h5py", "safetensors", "rich", "tyro"):
        assert "core" in found[name].needed_by
        assert found[name].direct
        assert found[name].version
        assert found[name].licence not in ("", "not stated")
    assert found["sympy"].needed_by  # asked for by torch alone
    assert not found["sympy"].direct


def test_a_long_licence_text_is_named_by_its_classifier() -> None:
    assert licence_of(distribution("matplotlib")) == "Python Software Foundation License"


def test_what_is_too_old_or_missing_is_a_problem() -> None:
    core = [Requirement("numpy>=99"), Requirement("no-such-package>=1")]
    requirements = {"core": core, "more": [Requirement("not-installed-either")]}
    problems = {package.name: package.problem for package in installed_packages(requirements)}
    assert "but >=99 is needed" in problems["numpy"]
    assert "not installed" in problems["no-such-package"]
    assert [extra.install for extra in uninstalled_extras(requirements)] == ['pip install "prvr[more]"']


def test_weights_in_the_hubs_cache_are_compared_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("prvr.doctor.diagnosis.model_folder", lambda name: snapshot)
    content = b"weights"
    blob = tmp_path / "models--some--model" / "blobs" / hashlib.sha256(content).hexdigest()
    snapshot = tmp_path / "models--some--model" / "snapshots" / "abc"
    for folder in (blob.parent, snapshot):
        folder.mkdir(parents=True)
    blob.write_bytes(content)
    (snapshot / "model.safetensors").symlink_to(blob)
    good = {encoder.name: encoder for encoder in find_encoders()}["some/model"]
    assert (good.state, good.weights) == ("ready", hashlib.sha256(content).hexdigest())
    blob.write_bytes(b"weightz")
    bad = {encoder.name: encoder for encoder in find_encoders()}["some/model"]
    assert bad.state == "damaged"
    assert "damaged or replaced" in bad.remedy
    (snapshot / HASHES_FILE).write_text("[]")
    assert "cannot be read" in {encoder.name: encoder for encoder in find_encoders()}["some/model"].remedy


def test_the_command_as_text_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = Library.create(tmp_path / "library", encoder="plain")
    assert main(["doctor", "--library", str(library.folder), "--licences"]) == 0
    text = " ".join(capsys.readouterr().out.split())  # lines are folded at the width of the terminal
    for word in ("Python", "processor", "scoring", "disk", "plain", "torch", "0 videos", "in order"):
        assert word in text
    assert main(["doctor", "--library", str(library.folder), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["library"]["problems"] == []
    assert values["problems"] == []
    assert {"versions", "machine", "engine", "encoders", "disks", "packages"} <= values.keys()
    (library.folder / "catalogue.sqlite").write_bytes(b"no database" * 1000)
    assert main(["doctor", "--library", str(library.folder)]) == 1
    assert "wrong" in capsys.readouterr().out


def test_a_folder_that_holds_no_library_is_a_problem(tmp_path: Path) -> None:
    assert any("is not a library" in problem for problem in examine(tmp_path / "nothing").problems)


def test_what_was_measured_for_pictures_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PRVR_ENGINE")
    monkeypatch.setattr("prvr.doctor.encoding.has_bf16", lambda: True)
    monkeypatch.setattr("prvr.doctor.encoding.openvino_installed", lambda: False)
    first, second = encoding_types()
    assert first.startswith("fp32 and bf16")
    assert first.endswith('after pip install "prvr[openvino]"')
    assert "not measured yet" in second
    rates, cosines = {"torch": 20.0, "bf16": 57.2, "int8": 99.9}, {"bf16": 0.9991, "int8": 0.993}
    here = EngineChoice("google/siglip2-base-patch16-224", cpu_name(), 16, rates, cosines)
    remember_choice("0" * 64, ("torch", "bf16", "int8"), here)
    remember_choice("1" * 64, ("torch", "bf16", "int8"), replace(here, processor="of another machine"))
    assert main(["doctor"]) == 0
    line = (
        "siglip2 uses bf16: pictures a second: torch 20.0, bf16 57.2 (cosine to torch at least 0.9991), "
        "int8 99.9 (cosine to torch at least 0.9930)"
    )
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("pictures a second") == 1
    assert line in text
