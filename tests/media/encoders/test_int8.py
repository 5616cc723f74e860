"""int8 on a processor: converted once, chosen by measuring, and told apart in recipes only where vectors differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from prvr.media import EncoderError, MissingExtra, Recipe, RecipeMismatch, open_encoder, remembered_choices
from prvr.media.encoders import choice as choices
from prvr.media.encoders import int8
from prvr.media.encoders.choice import EngineChoice, least_cosine
from prvr.media.encoders.image_text import ImageTextEncoder
from prvr.media.encoders.trial import TypeTrial

pytest.importorskip("onnx")
one_kind = pytest.mark.parametrize("pair_folder", ["siglip"], indirect=True)  # where kinds of models do not matter


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PRVR_ENGINE", raising=False)
    monkeypatch.setattr("prvr.media.encoders.engine.processor_types", lambda: ("fp32",))  # whatever this processor has
    return tmp_path / "cache" / "prvr"


def opened(folder: Path, engine: str | None = None) -> ImageTextEncoder:
    encoder = open_encoder(str(folder), device="cpu", engine=engine)
    assert isinstance(encoder, ImageTextEncoder)
    return encoder


def pictures(encoder: ImageTextEncoder, count: int) -> list[np.ndarray]:
    return list(int8.made_pictures(count, encoder.pictures))


def test_int8_sees_what_float32_sees_and_is_converted_once(
    pair_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = opened(pair_folder, "fp32")
    seen = full.encode_frames(pictures(full, 20))
    quick = opened(pair_folder, "int8")
    assert least_cosine(quick.encode_frames(pictures(full, 20)), seen) > 0.995
    assert quick.engine.precision == torch.int8
    assert "Converting the picture model to int8, once" in caplog.text
    assert quick.recipe(1.0, "pyav 1") == full.recipe(1.0, "pyav 1")  # so libraries stay compatible

    made = next(cache.glob("int8/*/model.onnx"))
    before = made.stat().st_mtime_ns
    monkeypatch.setenv("PRVR_ENGINE", "int8")
    again = opened(pair_folder)
    assert least_cosine(again.encode_frames(pictures(full, 3)), seen[:3]) > 0.995  # any number of pictures
    assert made.stat().st_mtime_ns == before

    made.write_bytes(made.read_bytes()[:-1] + b"?")
    opened(pair_folder).encode_frames(pictures(full, 2))
    assert "is damaged. Converting" in caplog.text
    assert made.stat().st_mtime_ns != before


@one_kind
def test_the_fastest_is_found_with_the_first_pictures_and_remembered(
    pair_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measured = TypeTrial._try
    monkeypatch.setattr(TypeTrial, "_try", lambda *given: (1e6, measured(*given)[1]))  # as if int8 were fast
    encoder = opened(pair_folder)
    frames = pictures(encoder, 80)
    encoder.encode_frames(frames[:63])
    assert remembered_choices() == []
    encoder.encode_frames(frames)
    [choice] = remembered_choices()
    assert (choice.chosen, choice.model) == ("int8", str(pair_folder))
    assert choice.cosines["int8"] > 0.995
    assert encoder.engine.precision == torch.int8

    monkeypatch.setattr(TypeTrial, "decide", None)  # would fail if it were called
    later = opened(pair_folder)
    later.encode_frames(frames)
    assert later.engine.precision == torch.int8
    assert later.recipe(1.0, "pyav 1") == opened(pair_folder, "fp32").recipe(1.0, "pyav 1")

    shutil.rmtree(cache / "int8")
    (cache / "int8").write_text("a file, where no folder can be made")
    latest = opened(pair_folder)
    latest.encode_frames(frames)
    assert latest.engine.precision == torch.float32
    assert "Pictures are encoded in fp32" in caplog.text


@pytest.mark.parametrize(
    ("rates", "cosines", "chosen"),
    [
        ({"fp32": 4.0, "int8": 12.0}, {"int8": 0.999}, "int8"),
        ({"fp32": 4.0, "int8": 12.0}, {"int8": 0.99}, "fp32"),  # too far from float32
        ({"fp32": 4.0, "int8": 4.2}, {"int8": 0.999}, "fp32"),  # not worth it
        ({"fp32": 4.0, "bf16": 14.0, "int8": 12.0}, {"bf16": 0.999, "int8": 0.999}, "bf16"),
        ({"fp32": 4.0}, {}, "fp32"),
    ],
)
def test_what_is_chosen(rates: dict[str, float], cosines: dict[str, float], chosen: str) -> None:
    assert EngineChoice("made/model", "a processor", 2, rates, cosines).chosen == chosen


@one_kind
def test_a_model_that_cannot_be_converted_stays_in_float32(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such operator\nand a long story")

    monkeypatch.setattr(int8, "convert_to_int8", fail)
    encoder = opened(pair_folder)
    encoder.encode_frames(pictures(encoder, 80))
    assert encoder.engine.precision == torch.float32
    problem = f"{pair_folder} cannot be converted to int8 (no such operator): set PRVR_ENGINE to auto or fp32."
    assert f"without int8, which failed: {problem}" in caplog.text
    [choice] = remembered_choices()
    assert choice.failed == {"int8": problem}
    assert str(choice).endswith(f"int8 could not be tried: {problem}")
    with pytest.raises(EncoderError, match="no such operator"):
        opened(pair_folder, "int8").encode_frames(pictures(encoder, 1))


@one_kind
def test_vectors_that_differ_are_told_apart_by_the_recipe(pair_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "_agreement", lambda *_: 0.99)
    usual, forced = (opened(pair_folder, name).recipe(1.0, "pyav 1") for name in ("fp32", "int8"))
    assert "; int8 " in forced.preprocessing
    with pytest.raises(RecipeMismatch, match="preprocessing"):
        usual.require(forced)
    assert opened(pair_folder, "int8").recipe(1.0, "pyav 1") == forced  # also from the cache
    assert Recipe.from_json(forced.to_json()) == forced


@one_kind
def test_the_cache_keeps_the_models_that_were_used_last(pair_folder: Path, cache: Path) -> None:
    encoder = opened(pair_folder)
    made = [int8.converted_model(encoder.model, encoder.pictures, str(number)).path for number in range(5)]
    assert [path.exists() for path in made] == [False, True, True, True, True]
    os.utime(made[1].parent)
    int8.converted_model(encoder.model, encoder.pictures, "another")
    assert [path.exists() for path in made] == [False, True, False, True, True]


@one_kind
def test_a_missing_package_is_named_only_if_int8_is_asked_for(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r'onnx, which converts .* pip install "prvr\[int8\]"'):
        opened(pair_folder, "int8")
    monkeypatch.setattr(choices, "int8_versions", tuple)
    monkeypatch.setattr("prvr.media.encoders.engine.int8_versions", tuple)
    encoder = opened(pair_folder)
    encoder.encode_frames(pictures(encoder, 80))
    assert encoder.engine.precision == torch.float32
    assert remembered_choices() == []  # there was nothing to choose


@one_kind
def test_a_misspelt_setting_is_answered_with_a_question(pair_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRVR_ENGINE", "int-8")
    with pytest.raises(EncoderError, match=r"must be one of auto, fp32, bf16, int8. Did you mean 'int8'"):
        opened(pair_folder)


@one_kind
def test_a_damaged_record_is_measured_again(pair_folder: Path, cache: Path) -> None:
    encoder = opened(pair_folder)
    encoder.encode_frames(pictures(encoder, 64))
    [record] = cache.glob("engines/*.json")
    for content in ("{", "[]", '{"model": "x"}', '{"model": "x", "processor": "", "cores": 1, "rates": {}}'):
        record.write_text(content)
        assert remembered_choices() == []
    again = opened(pair_folder)
    again.encode_frames(pictures(again, 64))
    assert len(remembered_choices()) == 1


def test_the_runtime_reports_nothing_to_its_makers(cache: Path) -> None:
    """ONNX Runtime writes an identifier of the machine and a queue of reports into the cache unless told not to."""
    program = "from prvr.media import require_onnxruntime; require_onnxruntime().SessionOptions()"
    quiet = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    quiet["HOME"] = str(cache.parent)
    subprocess.run([sys.executable, "-c", program], env=quiet, check=True)
    assert [path for path in cache.parent.rglob("*") if "icrosoft" in str(path)] == []
