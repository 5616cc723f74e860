"""Vectors equal those of the model's own processor and model, on frames of real films and on sentences.

Expected numbers come from `transformers`: AutoProcessor with its Pillow image processor, and AutoModel.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from prvr.media import (
    Array,
    Encoder,
    EncoderError,
    Fit,
    Image,
    open_encoder,
    open_video,
    video_features,
    write_video,
)
from prvr.media.resize import fit_picture
from tests.media.encoders.published import save_clip, save_siglip2

transformers = pytest.importorskip("transformers")
FILMS = {"wide": (90, 160), "tall": (200, 112), "small": (24, 42), "odd": (61, 97), "large": (360, 640)}
CLOSE = 0.9995  # cosine; two frames of one film here are at most 0.998


def drawn(height: int, width: int, step: int) -> Image:
    """Stripes, a gradient, a disc that moves, and rows of marks like letters."""
    y, x = np.mgrid[:height, :width]
    disc = (x - width * (2 + step) / 6) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
    marks = ((x // 2 + step) % 5 < 2) & ((y // 3) % 4 < 3) & (y > height // 2)
    planes = [(x // 3 + y // 5 + step) % 2 * 255, x * 255 // width, np.where(marks, 255, disc * 180)]
    return np.stack(planes, -1).astype(np.uint8)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    for name, (height, width) in FILMS.items():
        write_video(folder / f"{name}.mp4", [drawn(height, width, step) for step in range(4)], fps=1)
    write_video(folder / "turned.mp4", [drawn(90, 160, step) for step in range(4)], fps=1, rotation=90)
    return folder


class Model:
    """A saved model, opened by us and by `transformers`."""

    def __init__(self, folder: Path):
        self.folder, self.clip = folder, "clip" in folder.name
        self.encoder: Any = open_encoder(str(folder), device="cpu")
        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder).eval()

    def pictures(self, images: list[Image]) -> Array:
        with torch.no_grad():
            return unit(self.model.get_image_features(**self.processor(images=images, return_tensors="pt")))

    def texts(self, texts: list[str]) -> Array:
        """As the model cards do it; for SigLIP 2 in lower case, as it was trained."""
        how: dict[str, Any] = {"padding": True} if self.clip else {"padding": "max_length", "max_length": 64}
        inputs = self.processor(
            text=texts if self.clip else [text.lower() for text in texts], truncation=True, return_tensors="pt", **how
        )
        with torch.no_grad():
            return unit(self.model.get_text_features(**inputs))


def unit(output: Any) -> Array:
    tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return torch.nn.functional.normalize(tensor, dim=-1).numpy()


def cosines(left: Array, right: Array) -> Array:
    return (left * right).sum(1)


@pytest.fixture(scope="module", params=["clip", "siglip2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    save = {"clip": save_clip, "siglip2": save_siglip2}[request.param]
    return Model(save(tmp_path_factory.mktemp(request.param)))


@pytest.mark.parametrize("film", [*FILMS, "turned"])
def test_frames_of_films(model: Model, shapes: Path, film: str) -> None:
    path = shapes / f"{film}.mp4"
    with open_video(path) as video:
        frames = [frame.image for frame in video.frames(rate=1.0)]
    expected = model.pictures(frames)
    found = video_features(path, model.encoder, rate=1.0).vectors
    assert cosines(found, expected).min() > CLOSE
    assert (expected @ expected.T).min() < 0.998  # the vectors do depend on what is seen
    assert model.encoder.fit.filter == ("bicubic" if model.clip else "bilinear")


def test_full_size_frames_are_what_the_decoder_gives(shapes: Path) -> None:
    """So that the comparison above does not rest on our own conversion of colours."""
    import av

    for film in FILMS:
        with av.open(str(shapes / f"{film}.mp4")) as container, open_video(shapes / f"{film}.mp4") as video:
            expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
            np.testing.assert_array_equal([frame.image for frame in video.frames(rate=1.0)], expected)


def test_pictures_that_are_searched_with(model: Model) -> None:
    images = [drawn(50, 120, 0), drawn(300, 200, 1), drawn(48, 48, 2)]
    assert cosines(model.encoder.encode_images(images), model.pictures(images)).min() > CLOSE


def test_sentences(model: Model) -> None:
    """Also one that is cut, and one beside longer ones."""
    texts = ["A man opens the RED Door", "a dog", "word " * 60, "x", "Twelve boxers, really!"]
    expected = model.texts(texts)
    np.testing.assert_allclose(model.encoder.encode_texts(texts), expected, atol=1e-5)
    np.testing.assert_allclose(model.encoder.encode_texts(["x"]), expected[3:4], atol=1e-5)
    assert (expected @ expected.T).min() < 0.9


def test_upper_and_lower_case_mean_the_same(model: Model) -> None:
    """CLIP's tokenizer writes lower case itself; SigLIP 2's does not, although the model was trained on it."""
    shout, whisper = model.encoder.encode_texts(["A RED DOOR", "a red door"])
    np.testing.assert_allclose(shout, whisper, atol=1e-6)


def test_siglip_reads_its_padding_whatever_the_tokenizer_says(model: Model, tmp_path: Path) -> None:
    """It was trained without a mask. A tokenizer that returns one must not change the vectors."""
    folder = Path(shutil.copytree(model.folder, tmp_path / "copy"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["model_input_names"] = ["input_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    texts = ["a dog", "a man opens the red door"]
    found = open_encoder(str(folder), device="cpu").encode_texts(texts)
    np.testing.assert_allclose(found, model.encoder.encode_texts(texts), atol=1e-6)


def test_words_are_those_of_the_sentence_without_padding(model: Model) -> None:
    ends = 2 if model.clip else 1  # CLIP also marks the beginning
    assert len(model.encoder.encode_words("abc")) == 3 + ends
    assert model.encoder.encode_words("abc").shape[1] == model.encoder.word_width


def test_a_cut_sentence_keeps_its_end_mark(model: Model) -> None:
    pretrained = model.encoder.pretrained
    cut = pretrained.tokens(["word " * 60], model.encoder.sentences.longest)["input_ids"][0]
    assert cut[-1] == pretrained.tokenizer.eos_token_id


def test_an_end_mark_that_the_model_does_not_know_is_refused(tmp_path: Path) -> None:
    """`transformers` would take the first token instead, which is the same for all sentences."""
    folder = save_clip(tmp_path / "clip")
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["eos_token_id"] = 7
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EncoderError, match="expects the token 7 at the end"):
        open_encoder(str(folder), device="cpu")


def recipe_text(encoder: Encoder) -> str:
    return encoder.recipe(1.0, "pyav 1").preprocessing


def test_the_recipe_states_filter_numbers_and_sentences(model: Model) -> None:
    expected = (
        "bicubic short side 48 × 0.0039215686 mean 0.48145466 0.4578275 0.40821073 "
        "std 0.26862954 0.26130258 0.27577711; sentences as typed, at most 77 tokens"
        if model.clip
        else "bilinear both sides × 0.0039215686 mean 0.5 0.5 0.5 std 0.5 0.5 0.5; "
        "sentences as typed, lower case, padded to 64 tokens, no mask"
    )
    assert recipe_text(model.encoder) == expected
    assert model.encoder.text_recipe().preprocessing == expected.split("; ")[1]
    assert model.encoder.text_recipe(words=True).words
    assert not model.encoder.text_recipe().words


@pytest.mark.parametrize(
    ("changed", "states"),
    [
        ({"resample": 3}, "bicubic"),
        ({"image_mean": [0.4, 0.5, 0.6]}, "mean 0.4 0.5 0.6"),
        ({"rescale_factor": 1 / 128}, "× 0.0078125"),
        ({"do_normalize": False}, "mean 0 0 0 std 1 1 1"),
    ],
)
def test_other_settings_are_followed_and_change_the_recipe(
    changed: dict[str, Any], states: str, tmp_path: Path
) -> None:
    other = Model(save_siglip2(tmp_path / "other", **changed))
    assert states in recipe_text(other.encoder)  # and not in the recipe above
    images = [drawn(50, 120, 0)]
    assert cosines(other.encoder.encode_images(images), other.pictures(images)) > CLOSE


def test_a_picture_that_is_scaled_larger_than_it_is_cut(tmp_path: Path) -> None:
    """Short side 64, the middle 48 of it, as some models ask."""
    other = Model(save_clip(tmp_path / "clip", size={"shortest_edge": 64}))
    images = [drawn(50, 121, 0), drawn(131, 70, 1)]
    assert cosines(other.encoder.encode_images(images), other.pictures(images)).min() > CLOSE


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"resample": 1}, "resample is"),
        ({"do_resize": False}, "do_resize is off"),
        ({"do_center_crop": False}, "leaves pictures of several sizes"),
        ({"crop_size": {"height": 60, "width": 60}}, "larger than the scaled picture"),
    ],
)
def test_what_is_not_done_here_is_refused(changed: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=problem):
        open_encoder(str(save_clip(tmp_path / "clip", **changed)), device="cpu")


def test_models_for_pictures_of_any_size_are_refused(tmp_path: Path) -> None:
    folder = save_siglip2(tmp_path / "naflex")
    settings = {
        "image_processor_type": "Siglip2ImageProcessor",
        "patch_size": 16,
        "max_num_patches": 256,
        "resample": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(EncoderError, match=r"any size \(NaFlex\) are not supported"):
        open_encoder(str(folder), device="cpu")


def test_a_processor_that_does_more_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our pixels are compared with the processor's own while the model is opened."""
    folder = save_siglip2(tmp_path / "siglip2")
    plain = transformers.SiglipImageProcessorPil.normalize
    monkeypatch.setattr(
        transformers.SiglipImageProcessorPil, "normalize", lambda *given, **named: plain(*given, **named)[::-1]
    )
    with pytest.raises(EncoderError, match=r"not supported \(SiglipImageProcessorPil\): the pixels differ by"):
        open_encoder(str(folder), device="cpu")


def test_without_a_preprocessor_configuration(model: Model, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model.folder, tmp_path / "copy"))
    for name in ("preprocessor_config.json", "processor_config.json"):
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(EncoderError, match=r"Is preprocessor_config\.json there"):
        open_encoder(str(folder), device="cpu")


@pytest.mark.parametrize(("size", "scaled"), [((90, 160), (85, 48)), ((200, 112), (48, 85)), ((61, 97), (76, 48))])
def test_the_long_side_is_rounded_down_and_both_filters_are_pillows(
    size: tuple[int, int], scaled: tuple[int, int]
) -> None:
    from PIL import Image as Pillow

    picture, fit = drawn(*size, 0), Fit(48, 48, "cover", "bicubic", 48)
    assert fit.scaled(size[1], size[0]) == scaled
    for name, number in (("bilinear", Pillow.Resampling.BILINEAR), ("bicubic", Pillow.Resampling.BICUBIC)):
        found = fit_picture(picture, Fit(*scaled, "stretch", name)).astype(int)  # type: ignore[arg-type]
        expected = np.asarray(Pillow.fromarray(picture).resize(scaled, number)).astype(int)
        assert np.abs(found - expected).max() <= 1
        assert (found != expected).mean() < 0.03
