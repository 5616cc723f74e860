"""`prvr data extract --features internvideo2`: from films and captions to a split that training reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prvr.cli import main
from prvr.data import Collection, check_collections, convert_annotations, open_feature_store
from prvr.media import open_window_encoder, open_word_encoder, write_video
from prvr.media.encoders.internvideo2 import InternVideo2Encoder
from prvr.training import load_preset, load_split, resolve_config
from tests.media.encoders.tiny_internvideo2 import OUTPUT, save_llama, tower_state

VIDEOS = ("aa_0.0_150.0", "bb_60.0_210.0")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tower and a LLaMA of the published widths, with random weights."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models")
    save_file(tower_state(width=16, depth=1), folder / "tower.safetensors")
    (folder / "llama").mkdir()
    save_llama(folder / "llama")
    return folder


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("films"), np.random.default_rng(0)
    for name in VIDEOS:
        pictures = [rng.integers(0, 255, (24, 32, 3), np.uint8).repeat(2, 0).repeat(2, 1) for _ in range(10)]
        write_video(folder / f"{name}.mp4", pictures, fps=2)  # 5 s
    return folder


@pytest.fixture
def qvhighlights(tmp_path: Path) -> Path:
    rows = [
        {"qid": 7, "query": "a red square moves", "vid": VIDEOS[0], "duration": 5, "relevant_windows": [[0, 2]]},
        {"qid": 8, "query": "the man opens the door", "vid": VIDEOS[1], "duration": 5, "relevant_windows": [[2, 4]]},
    ]
    annotations = tmp_path / "highlight_train_release.jsonl"
    annotations.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    convert_annotations(annotations, tmp_path / "data" / "qvhighlights")
    return tmp_path / "data" / "qvhighlights"


@pytest.fixture(autouse=True)
def tiny_is_6b(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny tower passes for the published one."""
    monkeypatch.setattr("prvr.media.encoders.internvideo2._NAMES", {(16, 1): "internvideo2-6b"})


def line(collection: Path, films: Path, *more: str) -> list[str]:
    return ["data", "extract", str(collection), "--videos", str(films), "--features", "internvideo2", *more]


def save_words(folder: Path, *numbers: int, width: int = 4096) -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        torch.save(torch.ones(9, width), folder / f"qid{number}.pt")


def test_frames_and_words_are_written_checked_and_trained_on(
    models: Path, films: Path, qvhighlights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("--encoder", str(models / "tower.safetensors"), "--text-encoder", str(models / "llama"))
    assert main(line(qvhighlights, films, *both)) == 0
    assert "next: prvr train qvhighlights --data" in capsys.readouterr().out
    files = Collection.find(qvhighlights, "qvhighlights", "internvideo2")
    with open_feature_store(files.video_features) as frames:
        assert frames.read(VIDEOS[0]).shape == (3, OUTPUT)  # 5 s in windows of 2 s
    with open_feature_store(files.query_features) as words:
        expected = open_word_encoder(str(models / "llama"), "cpu").encode_words("a red square moves")
        caption = next(name for name in words.ids if name.startswith(VIDEOS[0]))
        np.testing.assert_allclose(words.read(caption), expected, atol=1e-5)
    recipes = files.recipes
    assert recipes["frames"]["weights"] == open_window_encoder(models / "tower.safetensors", "cpu").weights
    assert recipes["frames"]["rate"] == 4.0
    assert recipes["queries"]["encoder"] == "llama"
    assert "last hidden states of 'summarize:'" in recipes["queries"]["preprocessing"]
    rows = check_collections(qvhighlights.parent).rows
    assert not [row for row in rows if row.state == "error" and "train" not in row.item and "split" not in row.item]
    assert {row.item: row.state for row in rows}["recipes"] == "ok"  # two encoders, as published
    preset = load_preset("qvhighlights", "xml")
    config = replace(preset, data=replace(preset.data, features="internvideo2"))
    split = load_split(resolve_config(config, qvhighlights.parent), qvhighlights.parent, "train")
    assert (split.visual_width, split.query_width, len(split)) == (768, 4096, 2)


def test_frames_alone_are_made_beside_published_words(
    models: Path, films: Path, qvhighlights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after Ctrl-C, from where it stopped, and with other windows."""
    words = qvhighlights / "TextData" / "qvhighlight_internvideo2_llama_text_feature"
    save_words(words, 7, 8)
    alone = line(qvhighlights, films, "--encoder", str(models / "tower.safetensors"), "--window", "1")
    seen, original = list[int](), InternVideo2Encoder.encode_windows

    def counted(self: InternVideo2Encoder, windows: Any) -> Any:
        seen.append(len(windows))
        if len(seen) == 6:  # the first of the second film
            raise KeyboardInterrupt
        return original(self, windows)

    monkeypatch.setattr(InternVideo2Encoder, "encode_windows", counted)
    assert main(alone) == 130
    assert "the same command continues" in capsys.readouterr().out
    assert main(alone) == 0
    assert len(seen) == 6 + 5  # the first film was kept
    files = Collection.find(qvhighlights, "qvhighlights", "internvideo2")
    assert files.query_features == words
    with open_feature_store(files.video_features) as frames:
        assert frames.read(VIDEOS[1]).shape == (5, OUTPUT)
    assert not (qvhighlights / "TextData" / "internvideo2").exists()


def test_words_of_all_captions_are_needed(films: Path, qvhighlights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any model is opened."""
    texts, alone = qvhighlights / "TextData", line(qvhighlights, films, "--encoder", "not opened")
    own, others = (texts / f"{name}_internvideo2_llama_text_feature" for name in ("qvhighlight", "charade_sta"))
    for place, width, numbers, says in (
        (others, 4096, (7, 8), "needs --text-encoder"),  # another dataset's
        (own, 4096, (), "needs --text-encoder"),
        (own, 4096, (7,), "has no words of 1 of 2 captions, such as bb_60.0_210.0#"),
        (own, 16, (7, 8), "is 4096 wide for words, but"),
        (own, 4096, (7, 8), "There is no file or folder not opened"),
    ):
        save_words(place, *numbers, width=width)
        assert main(alone) == 1
        assert says in capsys.readouterr().err
    (qvhighlights / "FeatureData" / "internvideo2").mkdir(parents=True)
    assert main(alone) == 1
    assert "exists already" in capsys.readouterr().err


def test_what_is_missing_or_does_not_fit_is_said(
    models: Path,
    films: Path,
    qvhighlights: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tower, llama = str(models / "tower.safetensors"), str(models / "llama")
    (tmp_path / "small").mkdir()
    small = str(save_llama(tmp_path / "small", width=16))
    for options, says in (
        ((), "internvideo2 needs --encoder: InternVideo2's weights"),
        (("--encoder", tower), "internvideo2 needs --text-encoder: the folder of the LLaMA"),
        (("--encoder", tower, "--text-encoder", small), "4096 wide for words, but"),
        (("--encoder", tower, "--text-encoder", str(models / "none")), "neither a folder nor a hub name"),
        (("--encoder", llama, "--text-encoder", llama), "holds no video tower"),
        (("--encoder", tower, "--text-encoder", ""), "--text-encoder is empty"),
        (("--encoder", "", "--text-encoder", llama), "--encoder is empty"),
        (("--rate", "2"), "--rate is not for internvideo2: eight frames are a row"),
        (("--repeats", "3"), "--repeats is not for internvideo2: a row is made of all frames"),
        (("--text", "vectors"), "--text is not for internvideo2: its captions are always kept word by word"),
        (("--workers", "2"), "--workers is not for internvideo2: it uses all cores or the GPU by itself"),
        (("--features", "InternVideo2"), "Did you mean 'internvideo2'?"),
        (("--features", "internvideo3", "--encoder", tower), "Did you mean 'internvideo2'?"),
        (("--encoder", tower, "--text-encoder", llama, "--window", "0"), "--window must be between"),
    ):
        assert main(line(qvhighlights, films, *options)) == 1
        assert says in capsys.readouterr().err
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in VIDEOS:
        (broken / f"{name}.mp4").write_text("no film")
    assert main(line(qvhighlights, broken, "--encoder", tower, "--text-encoder", llama)) == 1
    assert "No video could be read" in capsys.readouterr().err
    assert not [path for path in (qvhighlights / "FeatureData").iterdir() if not path.name.startswith(".")]
    for names, called in (({(16, 1): "internvideo2-1b"}, "internvideo2-1b"), ({}, "internvideo2-16x1")):
        monkeypatch.setattr("prvr.media.encoders.internvideo2._NAMES", names)
        assert main(line(qvhighlights, films, "--encoder", tower, "--text-encoder", llama)) == 1
        said = capsys.readouterr().err
        assert "internvideo2 is InternVideo2 6B, words of its LLaMA, but" in said
        assert f"is {called}." in said
    five = {"weight": torch.zeros(5, 16), "bias": torch.zeros(5)}
    narrow = {f"clip_projector.cross_attn.proj.{name}": tensor for name, tensor in five.items()}
    save_file(tower_state(width=16, depth=1) | narrow, tmp_path / "narrow.safetensors")
    monkeypatch.setattr("prvr.media.encoders.internvideo2._NAMES", {(16, 1): "internvideo2-1b"})
    both = ("--encoder", str(tmp_path / "narrow.safetensors"), "--text-encoder", llama)
    assert main(line(qvhighlights, films, "--features", "internvideo2-1b", *both)) == 1
    assert "internvideo2-1b is 768 wide for frames, but" in capsys.readouterr().err
    clip = ["data", "extract", str(qvhighlights), "--videos", str(films), "--features", "clip-b32", "--window", "2"]
    assert main(clip) == 1
    assert "--window is for internvideo2" in capsys.readouterr().err
