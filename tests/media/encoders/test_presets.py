"""Encoders with a short name, and which models are on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from prvr.cli import main
from prvr.media import EncoderError, find_model, find_preset, open_encoder, prepared_encoders, presets
from prvr.media.encoders.hashes import record_hashes
from tests.media.encoders.hub_server import COMMIT, hub_server
from tests.media.encoders.published import save_siglip2

transformers = pytest.importorskip("transformers")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub's client."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached(cache: Path, name: str, source: Path, commit: str = COMMIT) -> Path:
    """A model as the hub's client keeps it."""
    return Path(shutil.copytree(source, cache / f"models--{name.replace('/', '--')}" / "snapshots" / commit))


@pytest.fixture(scope="module")
def siglip2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_siglip2(tmp_path_factory.mktemp("siglip2"))


def test_what_prepare_downloads_can_be_opened_by_name(tmp_path: Path, cache: Path, siglip2: Path) -> None:
    """With the hub's own client. The repository also holds files that are not needed."""
    source = Path(shutil.copytree(siglip2, tmp_path / "source"))
    (source / "README.md").write_text("a model")
    shutil.copy(source / "model.safetensors", source / "open_clip_model.safetensors")
    (source / "pytorch_model.bin").write_bytes(b"pickled")
    with pytest.raises(EncoderError, match="not on this machine"):
        open_encoder("made/model")
    with hub_server("made/model", source) as address:
        environment = {"HF_ENDPOINT": address, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1"}
        command = [sys.executable, "-m", "prvr", "prepare", "made/model", "--yes"]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
        )
    assert done.returncode == 0, done.stderr
    folder = find_model("made/model")
    assert folder is not None
    assert {path.name for path in folder.glob("*.safetensors")} == {"model.safetensors"}
    assert not (folder / "pytorch_model.bin").exists()
    assert open_encoder("made/model", device="cpu").encode_texts(["a dog"]).shape == (1, 32)
    assert prepared_encoders() == ["made/model"]


def test_presets_come_before_other_models(cache: Path, siglip2: Path, sentence_folder: Path, tmp_path: Path) -> None:
    assert prepared_encoders() == []
    cached(cache, "a/model", siglip2)
    cached(cache, "openai/clip-vit-large-patch14", siglip2)
    cached(cache, "google/siglip2-base-patch16-224", siglip2)
    cached(cache, "sentence-transformers/all-MiniLM-L6-v2", sentence_folder)  # not for pictures
    cached(cache, "b/sentences", sentence_folder)
    cached(cache, "c/unfinished", siglip2).joinpath("model.safetensors").unlink()
    assert prepared_encoders() == ["siglip2", "clip", "a/model"]


def test_of_several_downloads_the_prepared_one_is_used(cache: Path, siglip2: Path, tmp_path: Path) -> None:
    first = cached(cache, "some/model", siglip2, "a" * 40)
    second = cached(cache, "some/model", siglip2, "b" * 40)
    (cache / "models--some--model" / "refs").mkdir()
    for commit, folder in (("a" * 40, first), ("b" * 40, second)):
        (cache / "models--some--model" / "refs" / "main").write_text(commit)
        assert find_model("some/model") == folder
    record_hashes(first, {}, "a" * 40)
    assert find_model("some/model") == first


def test_the_list(cache: Path, siglip2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = cached(cache, "google/siglip2-base-patch16-224", siglip2)
    cached(cache, "a/model", siglip2)
    assert main(["prepare", "--list"]) == 0
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line}
    for preset in presets():
        assert preset.name in rows
    assert ["siglip2", "yes", "1,540", "Apache-2.0", "224", "35.4", "medium"] in [
        line.split() for line in said.splitlines()
    ]
    assert "Also on this machine: a/model" in said
    assert main(["prepare", "--list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["prepared"] == ["siglip2", "a/model"]
    first = told["encoders"][0]
    assert (first["name"], first["folder"], first["speed"]) == ("siglip2", str(folder), "medium")
    assert main(["prepare"]) == 1
    assert "prvr prepare --list" in capsys.readouterr().err


def test_a_preset_is_found_by_both_names() -> None:
    assert find_preset("siglip2") is find_preset("google/siglip2-base-patch16-224") is presets()[0]
    assert find_preset("nobody/knows") is None
    assert len({preset.name for preset in presets()} | {preset.hub for preset in presets()}) == 2 * len(presets())


def layers(width: int, inner: int, depth: int, heads: int) -> dict[str, int]:
    return {
        "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
    }  # fmt: skip


BASE, LARGE, SO400M = layers(768, 3072, 12, 12), layers(1024, 4096, 24, 16), layers(1152, 4304, 27, 16)


def clip(vision: dict[str, int], text: dict[str, int], patch: int, width: int) -> Any:
    vision = {**vision, "image_size": 224, "patch_size": patch}
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=width))


def siglip(part: dict[str, int], side: int, patch: int) -> Any:
    text = {**part, "vocab_size": 256_000, "projection_size": part["hidden_size"]}
    return transformers.SiglipModel(
        transformers.SiglipConfig(text_config=text, vision_config={**part, "image_size": side, "patch_size": patch})
    )


# The published architectures, from the models' config.json files.
ARCHITECTURES = {
    "siglip2": lambda: siglip(BASE, 224, 16),
    "siglip2-large": lambda: siglip(LARGE, 256, 16),
    "siglip2-so400m": lambda: siglip(SO400M, 384, 14),
    "clip-base": lambda: clip(BASE, layers(512, 2048, 12, 8), 32, 512),
    "clip": lambda: clip(LARGE, layers(768, 3072, 12, 12), 14, 768),
    "tinyclip-8m": lambda: clip(layers(256, 1024, 10, 4), layers(256, 1024, 3, 4), 16, 512),
    "tinyclip-39m": lambda: clip(layers(512, 2048, 12, 8), layers(512, 2048, 6, 8), 16, 512),
}


@pytest.mark.parametrize("preset", [preset for preset in presets() if preset.gflops], ids=lambda preset: preset.name)
def test_sizes_and_effort_follow_from_the_architecture(preset: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = ARCHITECTURES[preset.name]().eval()
        with FlopCounterMode(display=False) as counter:
            model.get_image_features(pixel_values=torch.zeros(1, 3, preset.side, preset.side))
    assert counter.get_total_flops() / 1e9 == pytest.approx(preset.gflops, rel=0.01)
    weights = sum(part.numel() for part in model.parameters()) * 4 / 1e6
    assert 0 < preset.megabytes - weights < 50  # the rest is tokenizers
    assert preset.speed == ("fast" if preset.gflops <= 20 else "medium" if preset.gflops <= 100 else "slow")
