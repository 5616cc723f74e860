"""Fetching weights: what would be fetched is said first. The hub is played by a stand-in."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prvr.cli import main
from prvr.media import EncoderError, download, open_text_encoder, plan_download
from prvr.media.encoders.hashes import expected_hashes, file_hash, record_hashes, require_unchanged

hub = pytest.importorskip("huggingface_hub")
WEIGHTS = b"weights" * 1000


class Hub:
    """Answers like the hub's client."""

    def __init__(self, folder: Path, files: dict[str, bytes]):
        self.folder, self.files, self.fetched = folder, files, False

    def model_info(self, name: str, revision: str | None, files_metadata: bool) -> Any:
        assert files_metadata
        if name != "some/model":
            raise ConnectionError("no route to host")
        siblings = [
            SimpleNamespace(
                rfilename=file,
                size=len(content),
                lfs=SimpleNamespace(sha256=hashlib.sha256(WEIGHTS).hexdigest()) if "safetensors" in file else None,
            )
            for file, content in self.files.items()
        ]
        return SimpleNamespace(siblings=siblings, sha="0123456789abcdef")

    def snapshot_download(self, name: str, revision: str, allow_patterns: list[str]) -> str:
        self.fetched = True
        for file in allow_patterns:
            (self.folder / file).write_bytes(self.files[file])
        return str(self.folder)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(tmp_path, {"model.safetensors": WEIGHTS, "config.json": b"{}", "pytorch_model.bin": b"x" * 99})
    monkeypatch.setattr(hub, "HfApi", lambda: made)
    monkeypatch.setattr(hub, "snapshot_download", made.snapshot_download)
    return made


def test_the_size_is_known_before_anything_is_fetched(fake: Hub) -> None:
    plan = plan_download("some/model")
    assert plan.bytes == len(WEIGHTS) + 2  # neither pickles nor other runtimes' copies
    assert not fake.fetched
    assert download(plan) == fake.folder


def test_a_wrong_hash_and_pickles_are_refused(fake: Hub) -> None:
    plan = plan_download("some/model")
    fake.files["model.safetensors"] = b"something else"
    with pytest.raises(EncoderError, match="sha256"):
        download(plan)
    del fake.files["model.safetensors"]
    with pytest.raises(EncoderError, match="Pickled weights are not read"):
        plan_download("some/model")


def test_without_a_network_the_error_says_what_to_do(fake: Hub) -> None:
    with pytest.raises(EncoderError, match="give a folder"):
        plan_download("other/model")


def test_the_command_says_the_size_and_asks(fake: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "some/model"]) == 1  # nobody to ask in a test
    said = capsys.readouterr()
    assert "0.0 MB in 2 files" in said.out
    assert "--yes" in said.err
    assert not fake.fetched
    assert main(["prepare", "some/model", "--yes"]) == 0
    assert fake.fetched
    assert main(["prepare", "plain"]) == 0
    assert main(["prepare", "other/model"]) == 1
    assert "network" in capsys.readouterr().err


def test_fetched_files_are_compared_whenever_they_are_loaded(sentence_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(sentence_folder, folder)
    record_hashes(folder, {path.name: file_hash(path) for path in folder.iterdir()}, "0123")
    assert open_text_encoder(str(folder)).width > 0
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1  # one bit of one weight
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(
        EncoderError, match=r"model.safetensors has sha256 .* was downloaded: the file was damaged or replaced"
    ):
        open_text_encoder(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match="was downloaded but is missing now"):
        open_text_encoder(str(folder))


def test_fetching_notes_hashes_beside_the_files(fake: Hub) -> None:
    folder = download(plan_download("some/model"))
    assert expected_hashes(folder)["model.safetensors"] == hashlib.sha256(WEIGHTS).hexdigest()
    assert require_unchanged(folder).keys() == {"model.safetensors", "config.json"}
