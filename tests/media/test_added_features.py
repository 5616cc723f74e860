"""Features of a dataset's raw videos: the widths of published ones, words in three forms, and recipes that are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest

from prvr.cli import main
from prvr.data import Collection, Dataset, check_collections, open_feature_store
from prvr.media import Encoder, EncoderError, Extraction, add_features, open_encoder, write_video
from prvr.training import Run, RunError, load_preset
from tests.media.encoders.conftest import save_pair

SENTENCES = {"v_one#0": "a red square moves left", "v_two#0": "the man opens the door"}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """A tiny CLIP with random weights: frames are 8 wide, words 16."""
    pytest.importorskip("transformers")
    return open_encoder(str(save_pair(tmp_path_factory.mktemp("clip"), "clip")))


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, rng = tmp_path_factory.mktemp("videos"), np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (32, 32, 3), np.uint8).repeat(2, 0).repeat(2, 1) for _ in range(6)]
    return {name: write_video(folder / f"{name}.mp4", pictures, fps=1) for name in ("v_one", "v_two")}


def collection(root: Path) -> Path:
    text = root / "mine" / "TextData"
    text.mkdir(parents=True)
    lines = "".join(f"{name} {sentence}\n" for name, sentence in SENTENCES.items())
    (text / "minetrain.caption.txt").write_text(lines, encoding="utf-8")
    return root / "mine"


def test_frames_and_words_stand_beside_each_other_with_their_recipes(
    clip: Encoder, videos: dict[str, Path], tmp_path: Path
) -> None:
    folder = collection(tmp_path)
    add_features(folder, "tiny", videos, SENTENCES, Extraction(clip, rate=1.0), progress=False)
    files = Collection.find(tmp_path, "mine")
    assert (files.visual_feature, files.query_features) == ("tiny", folder / "TextData" / "tiny")
    data = Dataset.load(tmp_path, "mine", "train")
    assert (data.visual_width, data.query_width) == (8, 16)
    assert files.recipes["frames"]["weights"] == files.recipes["queries"]["weights"] == clip.weights
    with open_feature_store(files.query_features) as words:
        np.testing.assert_allclose(words.read("v_one#0"), clip.encode_words(SENTENCES["v_one#0"]), atol=1e-6)
    rows = {row.item: row.found for row in check_collections(tmp_path).rows}
    assert "1 a second" in rows["recipe of frames"]
    recipe = folder / "TextData" / "tiny" / "recipe.json"
    recipe.write_text(json.dumps(json.loads(recipe.read_text("utf-8")) | {"weights": "others", "width": 17}))
    states = {row.item: row.state for row in check_collections(tmp_path).rows}
    assert (states["recipe of queries"], states["recipes"]) == ("error", "warning")


def test_projected_words_end_with_the_sentence_in_the_space_of_the_pictures(
    clip: Encoder, videos: dict[str, Path], tmp_path: Path
) -> None:
    folder = collection(tmp_path)
    made_by = Extraction(clip, rate=1.0, pool=4)
    add_features(folder, "tiny", videos, SENTENCES, made_by, text="projected", progress=False)
    with open_feature_store(folder / "TextData" / "tiny") as words:
        for name, sentence in SENTENCES.items():
            last = words.read(name)[-1]
            np.testing.assert_allclose(last / np.linalg.norm(last), clip.encode_texts([sentence])[0], atol=1e-5)
    every = Extraction(clip, rate=1.0).features(videos["v_one"]).vectors
    with open_feature_store(folder / "FeatureData" / "tiny") as frames:
        pooled = frames.read("v_one")
    np.testing.assert_allclose(pooled, [every[:4].mean(0), every[4:].mean(0)], atol=1e-6)
    assert "mean of 4" in Collection.find(tmp_path, "mine").recipes["frames"]["preprocessing"]
    with pytest.raises(EncoderError, match="cannot project single words"):
        add_features(folder, "other", videos, SENTENCES, Extraction(open_encoder("plain"), 1.0), text="projected")


def test_a_run_refuses_features_that_were_made_otherwise(
    clip: Encoder, videos: dict[str, Path], tmp_path: Path
) -> None:
    folder = collection(tmp_path)
    add_features(folder, "tiny", videos, SENTENCES, Extraction(clip, rate=1.0), progress=False)
    preset, run = load_preset("charades", "xml"), Run(tmp_path / "run")
    run.create(replace(preset, data=replace(preset.data, collection="mine", visual_feature="tiny")), tmp_path)
    recipe = folder / "FeatureData" / "tiny" / "recipe.json"
    made = json.loads(recipe.read_text("utf-8"))
    recipe.write_text(json.dumps(made | {"decoder": "another"}))  # differs in rounding only
    run.require_same_features(tmp_path)
    recipe.write_text(json.dumps(made | {"rate": 2.0}))
    with pytest.raises(RunError, match=r"the frames in .* were not made as those .*rate 1.0 → 2.0"):
        run.require_same_features(tmp_path)


def test_the_command_refuses_another_model_and_says_what_is_missing(
    clip: Encoder, videos: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = collection(tmp_path)
    line = ["data", "extract", str(folder), "--videos", str(videos["v_one"].parent)]
    assert main([*line, "--features", "clip-b32", "--encoder", clip.name]) == 1
    assert "clip-b32 (CLIP ViT-B/32) is 512 wide" in capsys.readouterr().err
    assert main([*line, "--features", "slowfast-clip"]) == 1
    said = capsys.readouterr().err
    assert "slowfast-clip features are read, but cannot be made here" in said
    assert "choose clip-b32, clip-l14." in said  # what an encoder of single pictures makes
    with (folder / "TextData" / "minetrain.caption.txt").open("a", encoding="utf-8") as file:
        file.write("v_gone#0 nobody\n")
    assert main([*line, "--features", "small", "--encoder", "plain"]) == 1
    said = capsys.readouterr().out
    assert "wrote small into" in said
    assert "1 video (v_gone)" in said
    assert main([*line, "--features", "small", "--encoder", "plain"]) == 1
    assert "exists already" in capsys.readouterr().err


def test_the_command_finds_a_video_whose_accents_are_written_otherwise(
    videos: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = collection(tmp_path)
    (folder / "TextData" / "minetrain.caption.txt").write_text(f"{normalize('NFC', 'café')}#0 a red square\n", "utf-8")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / f"{normalize('NFD', 'café')}.mp4").write_bytes(videos["v_one"].read_bytes())
    line = ["data", "extract", str(folder), "--videos", str(tmp_path / "videos"), "--features", "small"]
    assert main([*line, "--encoder", "plain"]) == 0
    with open_feature_store(folder / "FeatureData" / "small") as store:
        assert store.ids == (normalize("NFC", "café"),)
