"""InternVideo2's video tower and the words of its LLaMA: the authors' numbers, and files that are refused."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prvr.media import EncoderError, file_hash, open_window_encoder, open_word_encoder, window_features, write_video
from prvr.media.encoders.llama import LlamaEncoder
from tests.media.encoders.tiny_internvideo2 import OUTPUT, WIDTH, pool_state, published, save_llama, tower_state

# What the authors' module (internvideo2_clip_vision.py and pos_embed.py of OpenGVLab/InternVideo, without its fused
# parts) returned for these weights and these windows: numbers 0, 333 and 767 of both vectors. Every number of ours was
# within 1e-6 of theirs, with these sizes, and with the widths and heads of the 1B and 6B models.
AUTHORS_ONE_FILE = [[0.262407, 0.641163, -0.068528], [0.254645, 0.672901, -0.071915]]
AUTHORS_TWO_FILES = [[0.645849, 0.435546, -0.970545], [0.653938, 0.42669, -0.983601]]  # positions of four frames


def windows() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(9).integers(0, 256, (2, 8, 32, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tower") / "tower.safetensors"
    save_file(published(tower_state()), path)
    return path


@pytest.mark.parametrize("ending", ["safetensors", "pth"])
def test_one_file_gives_the_authors_numbers(weights: Path, tmp_path: Path, ending: str) -> None:
    if ending == "pth":  # as a training writes it, with other parts of the model beside
        weights = tmp_path / "model.pth"
        beside = {"temp": torch.ones(()), "text_encoder.a": torch.ones(2)}
        torch.save({"module": published(tower_state()) | beside}, weights)
    encoder = open_window_encoder(weights, "cpu")
    assert (encoder.width, encoder.fit.width, encoder.name) == (768, 32, "internvideo2-128x2")
    np.testing.assert_allclose(encoder.encode_windows(windows())[:, [0, 333, 767]], AUTHORS_ONE_FILE, atol=1e-5)


def test_the_body_and_the_clip_models_file_are_one_model(tmp_path: Path) -> None:
    torch.save({"model": published(tower_state(frames=4))}, tmp_path / "stage2.pt")
    with pytest.raises(EncoderError, match=r"is the body alone \(stage 2, for 4 frames\).* into one folder"):
        open_window_encoder(tmp_path / "stage2.pt", "cpu")
    torch.save(published(pool_state(5)), tmp_path / "1B_clip.pth")
    encoder = open_window_encoder(tmp_path, "cpu")
    np.testing.assert_allclose(encoder.encode_windows(windows())[:, [0, 333, 767]], AUTHORS_TWO_FILES, atol=1e-5)


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("executed"),)


@pytest.mark.parametrize("protocol", [None, 2, 4], ids=["zip", "old", "plain"])
def test_a_file_with_code_in_it_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int | None
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pth"
    if protocol is None:
        torch.save({"module": Harmful()}, path)
    else:
        path.write_bytes(pickle.dumps(Harmful(), protocol=protocol))
    with pytest.raises(EncoderError, match=r"model.pth names code that loading it would execute \(.*\): refused"):
        open_window_encoder(path, "cpu")
    assert not Path("executed").exists()


def test_other_files_are_refused_with_a_sentence(tmp_path: Path) -> None:
    def refused(says: str, **files: dict[str, torch.Tensor] | bytes) -> None:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        for name, content in files.items():
            if isinstance(content, bytes):
                (folder / f"{name}.pth").write_bytes(content)
            else:
                save_file(content, folder / f"{name}.safetensors")
        with pytest.raises(EncoderError, match=says):
            open_window_encoder(folder, "cpu")

    whole = tower_state()
    refused("holds no weights: no file that ends with .safetensors, .pt, .pth")
    refused("page.pth cannot be read as weights: it is damaged", page=b"<html>You need to log in</html>")
    refused(r"holds no video tower .*patch_embed", words={"model.embed_tokens.weight": torch.ones(3, 2)})
    refused("holds 2 video towers: a.safetensors, b.safetensors", a=whole, b=tower_state(seed=1))
    narrow = whole | {"blocks.1.attn.proj.weight": torch.ones(WIDTH, 7)}
    refused(r"blocks.1.attn.proj.weight is \(128, 7\), not \(128, 128\)", a=narrow)
    refused("blocks.1.norm1.weight is missing", a={k: v for k, v in whole.items() if k != "blocks.1.norm1.weight"})
    refused(r"it has a \(1, 100, 128\) position table", a=whole | {"pos_embed": torch.ones(1, 100, WIDTH)})
    with pytest.raises(EncoderError, match="There is no file or folder"):
        open_window_encoder(tmp_path / "nothing.pth", "cpu")


def test_tensors_of_other_kinds_are_refused_where_they_are_needed(tmp_path: Path) -> None:
    whole, path = tower_state(width=16, depth=1), tmp_path / "model.pth"
    patches = "patch_embed.proj.weight"
    token, no_table = whole["cls_token"], "cls_token is no plain table of floating-point numbers"
    for changed, says in (
        ({"cls_token": token.to_sparse()}, no_table),
        ({"cls_token": token.to("meta")}, no_table),
        ({"cls_token": token.long()}, no_table),
        ({"cls_token": token.to(torch.complex64)}, no_table),
        ({"pos_embed": whole["pos_embed"].to_sparse()}, "pos_embed is no plain table"),
        ({"cls_token": torch.ones(1).expand(1, 1, 16)}, "said to hold more numbers than are stored"),
        ({patches: whole[patches][:, :, 0]}, rf"{patches} is \(16, 3, 2, 2\)"),
        ({patches: torch.zeros(16, 3, 1, 0, 0)}, r"its patches are \(16, 3, 1, 0, 0\)"),
        ({patches: torch.zeros(0, 3, 1, 2, 2)}, r"its patches are \(0, 3, 1, 2, 2\)"),
        ({"blocks.0.mlp.fc1.weight": torch.tensor(1.0)}, r"blocks.0.mlp.fc1.weight is \(\)"),
        *(({"pos_embed": torch.zeros(shape)}, rf"it has a \({shape[0]}, 1025, {shape[2]}\) position table")
          for shape in ((0, 1025, 16), (2, 1025, 16), (1, 1025, 0))),
    ):  # fmt: skip
        torch.save(whole | changed, path)
        with pytest.raises(EncoderError, match=says):
            open_window_encoder(path, "cpu")
    torch.save(whole | {"beside": torch.eye(3).to_sparse(), "counter": torch.tensor(1)}, path)
    assert open_window_encoder(path, "cpu").width == OUTPUT


def test_a_row_is_a_window_and_the_last_one_repeats_its_last_frame(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pictures = [np.full((32, 32, 3), level, np.uint8) for level in rng.integers(0, 255, 18)]
    film = write_video(tmp_path / "film.mp4", pictures, fps=4)  # 4.5 s
    save_file(tower_state(width=16, depth=1), tmp_path / "tower.safetensors")
    encoder = open_window_encoder(tmp_path / "tower.safetensors", "cpu")
    found = window_features(film, encoder, rate=4.0)  # windows of 2 s
    assert found.times.tolist() == [0.0, 2.0, 4.0]
    assert (found.recipe.rate, found.recipe.weights) == (4.0, encoder.weights)
    assert found.recipe.preprocessing.startswith("8 frames a row; bicubic")
    seen = np.stack([*pictures[16:], *[pictures[17]] * 6])[None]
    np.testing.assert_allclose(found.vectors[2], encoder.encode_windows(seen)[0], atol=0.02)  # the codec rounds
    encoder.batch = 2
    np.testing.assert_allclose(window_features(film, encoder, rate=4.0).vectors, found.vectors, atol=1e-5)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_llama(tmp_path_factory.mktemp("llama"), width=16)


def test_words_are_the_models_last_hidden_states_after_the_prompt(llama: Path) -> None:
    from transformers import LlamaModel

    encoder = open_word_encoder(str(llama), "cpu")
    words = encoder.encode_words("a red square")
    unknown, begin, end = 1, 2, 3  # the test's vocabulary knows neither "summarize" nor ":"
    tokens = torch.tensor([[begin, unknown, unknown, 4, 6, 8, end]])
    expected = LlamaModel.from_pretrained(llama)(tokens).last_hidden_state[0].detach().numpy()
    np.testing.assert_allclose(words, expected, atol=1e-5)
    assert len(encoder.encode_words("red " * 200)) == 80
    assert encoder.text_recipe(words=True).width == 16
    with pytest.raises(EncoderError, match="no vector for a sentence"):
        encoder.encode_texts(["a"])


def test_the_llama_is_read_from_the_authors_file(llama: Path, tmp_path: Path) -> None:
    """In torch's format, with the video part of another model beside."""
    from transformers import LlamaModel

    for path in llama.glob("*.json"):
        shutil.copy(path, tmp_path)
    with pytest.raises(EncoderError, match=r"needs the LLaMA's weights, .* it holds none"):
        open_word_encoder(str(tmp_path), "cpu")
    state = {f"transformer.{name}": tensor for name, tensor in LlamaModel.from_pretrained(llama).state_dict().items()}
    torch.save(state | {"cls_token": torch.ones(1), "text_projection": torch.ones(2)}, tmp_path / "internvl.pth")
    encoder, same = open_word_encoder(str(tmp_path), "cpu"), open_word_encoder(str(llama), "cpu")
    np.testing.assert_array_equal(encoder.encode_words("a red square"), same.encode_words("a red square"))
    assert encoder.weights == file_hash(tmp_path / "internvl.pth")
    torch.save(state | {"transformer.norm.weight": torch.ones(5)}, tmp_path / "internvl.pth")
    with pytest.raises(EncoderError, match=r"is not the LLaMA of .*: norm.weight is \(5,\), not \(16,\)"):
        open_word_encoder(str(tmp_path), "cpu")
    torch.save({name: tensor.long() for name, tensor in state.items()}, tmp_path / "internvl.pth")
    with pytest.raises(EncoderError, match=r"embed_tokens.weight is no plain table of floating-point numbers"):
        open_word_encoder(str(tmp_path), "cpu")
    settings = json.loads((tmp_path / "config.json").read_text())
    for wrong in ({"hidden_size": "abc"}, {"num_attention_heads": 0}):
        (tmp_path / "config.json").write_text(json.dumps(settings | wrong))
        with pytest.raises(EncoderError, match=r"does not hold a LLaMA that can be loaded: its config.json"):
            open_word_encoder(str(tmp_path), "cpu")


def test_a_llama_in_bfloat16_keeps_its_angles_exact(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU. Angles of words far from the start would be wrong by much."""
    monkeypatch.setattr("prvr.media.encoders.llama.weight_type", lambda device: torch.bfloat16)
    encoder = open_word_encoder(str(llama), "cpu")
    assert isinstance(encoder, LlamaEncoder)
    assert np.isfinite(encoder.encode_words("a red square")).all()
    assert {tensor.dtype for tensor in encoder.model.parameters()} == {torch.bfloat16}
    assert {tensor.dtype for tensor in encoder.model.buffers()} == {torch.float32}


def test_a_models_own_code_is_neither_run_nor_asked_about(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(llama, tmp_path / "llama")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Planted", "auto_map": {"AutoTokenizer": ["planted.Planted", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "planted.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\nclass Planted: pass\n")
    asked = list[str]()
    monkeypatch.setattr("builtins.input", lambda question="": asked.append(question) or "y")
    with pytest.raises(EncoderError, match="custom code"):
        open_word_encoder(str(folder), "cpu")
    assert not asked
    assert not (tmp_path / "executed").exists()


def test_features_that_are_no_numbers_are_refused(tmp_path: Path, llama: Path) -> None:
    """The message names the weights."""
    save_file(
        tower_state(width=16, depth=1) | {"cls_token": torch.full((1, 1, 16), torch.nan)}, tmp_path / "a.safetensors"
    )
    with pytest.raises(EncoderError, match=r"weights in .*a.safetensors make features that are NaN or infinite"):
        open_window_encoder(tmp_path / "a.safetensors", "cpu").encode_windows(windows()[:1])
    words = open_word_encoder(str(llama), "cpu")
    assert isinstance(words, LlamaEncoder)
    words.model.norm.weight.fill_(torch.inf)
    with pytest.raises(EncoderError, match=r"weights in .*llama.* make features that are NaN or infinite"):
        words.encode_words("red")


def test_another_model_is_no_llama(sentence_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="holds a model of type bert; a LLaMA is needed"):
        open_word_encoder(str(sentence_folder), "cpu")
    with pytest.raises(EncoderError, match=r"config.json cannot be read"):
        open_word_encoder(str(tmp_path), "cpu")
