"""OpenVINO on a processor: converted once, chosen by measuring, told apart in recipes only where vectors differ."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from prvr.media import EncoderError, MissingExtra, Recipe, RecipeMismatch, open_encoder, remembered_choices
from prvr.media.encoders import choice as choices
from prvr.media.encoders import openvino_tower
from prvr.media.encoders.choice import EngineChoice, least_cosine
from prvr.media.encoders.image_text import ImageTextEncoder
from prvr.media.encoders.trial import EngineTrial

pytest.importorskip("openvino")
one_kind = pytest.mark.parametrize("pair_folder", ["siglip"], indirect=True)  # where kinds of models do not matter


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PRVR_ENGINE", raising=False)
    monkeypatch.setattr("prvr.media.encoders.engine.processor_engines", lambda: ("torch", "int8"))  # whatever it has
    return tmp_path / "cache" / "prvr"


def opened(folder: Path, engine: str | None = None) -> ImageTextEncoder:
    encoder = open_encoder(str(folder), device="cpu", engine=engine)
    assert isinstance(encoder, ImageTextEncoder)
    return encoder


def pictures(encoder: ImageTextEncoder, count: int) -> list[np.ndarray]:
    return list(openvino_tower.made_pictures(count, encoder.pictures, seed=2))


@pytest.mark.parametrize("engine", ["fp32", "bf16", "int8", "int8-static"])
def test_every_type_sees_what_torch_sees(pair_folder: Path, engine: str, caplog: pytest.LogCaptureFixture) -> None:
    if engine == "bf16" and not choices.has_bf16():
        pytest.skip("this processor has no instructions for bf16")
    full = opened(pair_folder, "torch")
    quick = opened(pair_folder, engine)
    found = quick.encode_frames(pictures(full, 20))
    assert least_cosine(found, full.encode_frames(pictures(full, 20))) > 0.995
    assert quick.engine.used == engine
    assert "once on this machine" in caplog.text
    if engine != "int8-static":  # of which more is required than such small networks reach
        assert quick.recipe(1.0, "pyav 1") == full.recipe(1.0, "pyav 1")  # so libraries stay compatible
    few = quick.encode_frames(pictures(full, 20)[:3])  # any number of pictures; it decides how sums are rounded
    assert least_cosine(few, found[:3]) > 0.9995


@one_kind
def test_transformers_is_quiet_while_a_tracer_looks_at_a_model(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at all attributes of a model makes it speak of losses."""
    encoder, logger, levels = opened(pair_folder, "torch"), logging.getLogger("transformers"), []
    before, convert_model = logger.level, openvino_tower.require_openvino().convert_model

    def note_level(*given: object, **options: object) -> object:
        levels.append(logger.level)
        return convert_model(*given, **options)

    monkeypatch.setattr(openvino_tower.require_openvino(), "convert_model", note_level)
    openvino_tower.convert(encoder.model, encoder.pictures, "float")
    assert levels == [logging.ERROR]
    assert logger.level == before < logging.ERROR


@pytest.mark.parametrize("form", ["float", "int8", "int8-static"])
def test_a_model_that_is_converted_stays_in_use_meanwhile(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch, form: openvino_tower.ConvertedForm
) -> None:
    encoder = opened(pair_folder, "torch")
    layers, seen = [*encoder.model.modules()], pictures(encoder, 2)
    vectors, convert_model = encoder.encode_frames(seen), openvino_tower.require_openvino().convert_model

    def while_another_thread_encodes(*given: object, **options: object) -> object:
        assert [*encoder.model.modules()] == layers
        np.testing.assert_array_equal(encoder.encode_frames(seen), vectors)
        return convert_model(*given, **options)

    monkeypatch.setattr(openvino_tower.require_openvino(), "convert_model", while_another_thread_encodes)
    openvino_tower.convert(encoder.model, encoder.pictures, form)
    assert [*encoder.model.modules()] == layers
    assert not any(layer._forward_pre_hooks for layer in layers)


class OneAtATime:
    """Stands for a request of OpenVINO, whose input and output are memory that each use writes over."""

    def __init__(self) -> None:
        self.busy, self.fails = False, False
        self.output = np.zeros((1, 2), np.float32)

    def start_async(self, inputs: list[np.ndarray]) -> None:
        if self.fails or self.busy:
            raise RuntimeError("Infer Request is busy" if self.busy else "no memory")
        self.busy, self.input = True, inputs[0]

    def wait(self) -> None:
        time.sleep(0.002)  # in which other threads run
        self.output[:] = self.input.mean()
        self.busy = False

    def get_output_tensor(self) -> SimpleNamespace:
        return SimpleNamespace(data=self.output)


def tower_with(monkeypatch: pytest.MonkeyPatch, requests: list[OneAtATime]) -> openvino_tower.OpenVinoTower:
    """A tower with these requests."""
    made = iter(requests)
    compiled = SimpleNamespace(create_infer_request=lambda: next(made))
    core = SimpleNamespace(get_property=lambda *_: [], compile_model=lambda *_: compiled)
    monkeypatch.setattr(openvino_tower, "_core", lambda: core)
    monkeypatch.setattr(torch, "get_num_threads", lambda: len(requests))
    return openvino_tower.OpenVinoTower(Path("model.xml"), "fp32", batch=8 * len(requests))


@pytest.mark.parametrize("count", [1, 2])
def test_threads_that_share_a_model_get_their_own_vectors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    tower = tower_with(monkeypatch, [OneAtATime() for _ in range(count)])
    assert len(tower.requests) == count
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda number: tower(torch.full((count, 3, 2, 2), float(number))), range(20))]
    assert [vectors[:, 0].tolist() for vectors in found] == [[number] * count for number in range(20)]


def test_a_request_that_fails_leaves_no_other_running(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = OneAtATime(), OneAtATime()
    tower, second.fails = tower_with(monkeypatch, [first, second]), True
    with pytest.raises(RuntimeError, match="no memory"):
        tower(torch.zeros(2, 3, 2, 2))
    assert not first.busy
    second.fails = False
    assert tower(torch.ones(2, 3, 2, 2)).tolist() == [[1, 1], [1, 1]]


@one_kind
def test_a_model_is_converted_once_and_again_where_it_is_damaged(
    pair_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = opened(pair_folder, "torch")
    seen = full.encode_frames(pictures(full, 3))
    opened(pair_folder, "int8").encode_frames(pictures(full, 3))

    made = next(cache.glob("openvino/*/model.bin"))
    before = made.stat().st_mtime_ns
    monkeypatch.setenv("PRVR_ENGINE", "int8")
    again = opened(pair_folder)
    assert least_cosine(again.encode_frames(pictures(full, 3)), seen[:3]) > 0.995
    assert made.stat().st_mtime_ns == before

    made.write_bytes(made.read_bytes()[:-1] + b"?")
    opened(pair_folder).encode_frames(pictures(full, 2))
    assert "is damaged. Converting" in caplog.text
    assert made.stat().st_mtime_ns != before


@one_kind
def test_the_fastest_is_found_with_the_first_pictures_and_remembered(
    pair_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measured = EngineTrial._try
    monkeypatch.setattr(EngineTrial, "_try", lambda *given: (1e6, measured(*given)[1]))  # as if int8 were fast
    encoder = opened(pair_folder)
    frames = pictures(encoder, 80)
    encoder.encode_frames(frames[:63])
    assert remembered_choices() == []
    encoder.encode_frames(frames)
    [choice] = remembered_choices()
    assert (choice.chosen, choice.model) == ("int8", str(pair_folder))
    assert choice.cosines["int8"] > 0.995
    assert encoder.engine.used == "int8"

    monkeypatch.setattr(EngineTrial, "decide", None)  # would fail if it were called
    later = opened(pair_folder)
    later.encode_frames(frames)
    assert later.engine.used == "int8"
    assert later.recipe(1.0, "pyav 1") == opened(pair_folder, "torch").recipe(1.0, "pyav 1")

    shutil.rmtree(cache / "openvino")
    (cache / "openvino").write_text("a file, where no folder can be made")
    latest = opened(pair_folder)
    latest.encode_frames(frames)
    assert latest.engine.used == "torch"
    assert "Pictures are encoded in fp32 by torch" in caplog.text


@pytest.mark.parametrize(
    ("rates", "cosines", "chosen"),
    [
        ({"torch": 4.0, "int8": 12.0}, {"int8": 0.999}, "int8"),
        ({"torch": 4.0, "int8": 12.0}, {"int8": 0.99}, "torch"),  # too far from float32
        ({"torch": 4.0, "int8": 12.0, "int8-static": 16.0}, {"int8": 0.996, "int8-static": 0.999}, "int8-static"),
        ({"torch": 4.0, "int8": 12.0, "int8-static": 16.0}, {"int8": 0.996, "int8-static": 0.996}, "int8"),
        ({"torch": 4.0, "int8": 4.2}, {"int8": 0.999}, "torch"),  # not worth it
        ({"torch": 4.0, "bf16": 14.0, "int8": 12.0}, {"bf16": 0.999, "int8": 0.999}, "bf16"),
        ({"torch": 4.0}, {}, "torch"),
    ],
)
def test_what_is_chosen(rates: dict[str, float], cosines: dict[str, float], chosen: str) -> None:
    assert EngineChoice("made/model", "a processor", 2, rates, cosines).chosen == chosen


@one_kind
def test_a_model_that_cannot_be_converted_stays_with_torch(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such operator\nand a long story")

    monkeypatch.setattr(openvino_tower, "convert", fail)
    encoder = opened(pair_folder)
    encoder.encode_frames(pictures(encoder, 80))
    assert encoder.engine.used == "torch"
    problem = f"{pair_folder} cannot be converted for OpenVINO (no such operator): set PRVR_ENGINE to auto or torch."
    assert f"without int8, which failed: {problem}" in caplog.text
    [choice] = remembered_choices()
    assert choice.failed == {"int8": problem}
    assert str(choice).endswith(f"int8 could not be tried: {problem}")
    with pytest.raises(EncoderError, match="no such operator"):
        opened(pair_folder, "int8").encode_frames(pictures(encoder, 1))


@pytest.mark.parametrize(
    ("form", "cosine", "marked"),
    [
        ("float", 0.996, False),
        ("int8", 0.996, False),
        ("int8", 0.994, True),
        ("int8-static", 0.9985, False),
        ("int8-static", 0.996, True),  # later pictures may reach beyond its scales
    ],
)
def test_what_a_recipe_says_and_what_is_chosen_follow_one_limit(
    form: openvino_tower.ConvertedForm, cosine: float, marked: bool
) -> None:
    model = openvino_tower.ConvertedModel(Path("model.xml"), "0123456789abcdef", form, cosine)
    assert model.mark == (f"{form} 0123456789ab" if marked else "")
    if form != "float":
        choice = EngineChoice("made/model", "a processor", 2, {"torch": 4.0, form: 16.0}, {form: cosine})
        assert choice.chosen == ("torch" if marked else form)


@one_kind
def test_a_model_is_checked_on_other_pictures_than_its_scales_were_found_with(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, make, made = opened(pair_folder), openvino_tower.made_pictures, []

    def note(*given: Any, **options: Any) -> np.ndarray:
        made.append(make(*given, **options))
        return made[-1]

    monkeypatch.setattr(openvino_tower, "made_pictures", note)
    openvino_tower.converted_model(encoder.model, encoder.pictures, "weights", "int8-static")
    watched, checked = ({picture.tobytes() for picture in each} for each in made)
    assert len(checked) == 16
    assert not watched & checked


@one_kind
def test_vectors_that_differ_are_told_apart_by_the_recipe(pair_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_tower, "_agreement", lambda *_: 0.99)
    usual, forced = (opened(pair_folder, name).recipe(1.0, "pyav 1") for name in ("torch", "int8"))
    assert "; int8 " in forced.preprocessing
    with pytest.raises(RecipeMismatch, match="preprocessing"):
        usual.require(forced)
    assert opened(pair_folder, "int8").recipe(1.0, "pyav 1") == forced  # also from the cache
    assert Recipe.from_json(forced.to_json()) == forced


@one_kind
def test_the_cache_keeps_the_models_that_were_used_last(pair_folder: Path, cache: Path) -> None:
    encoder = opened(pair_folder)

    def convert(weights: str) -> Path:
        return openvino_tower.converted_model(encoder.model, encoder.pictures, weights, "int8").path

    made = [convert(str(number)) for number in range(7)]
    assert [path.exists() for path in made] == [False, True, True, True, True, True, True]
    os.utime(made[1].parent)
    convert("another")
    assert [path.exists() for path in made] == [False, True, False, True, True, True, True]


@one_kind
def test_without_openvino_torch_encodes_and_only_int8_asks_for_it(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtra, match=r'OpenVINO, which runs .* pip install "prvr\[openvino\]"'):
        opened(pair_folder, "int8")
    monkeypatch.setattr(choices, "openvino_versions", tuple)
    monkeypatch.setattr("prvr.media.encoders.engine.processor_engines", choices.processor_engines)
    monkeypatch.setattr("prvr.media.encoders.engine.openvino_installed", choices.openvino_installed)
    monkeypatch.setattr(choices, "has_bf16", lambda: False)
    assert choices.processor_engines() == ("torch",)
    encoder, plain = opened(pair_folder), opened(pair_folder, "fp32")
    frames = pictures(encoder, 80)
    np.testing.assert_array_equal(encoder.encode_frames(frames), plain.encode_frames(frames))
    assert encoder.engine.used == "torch"
    assert remembered_choices() == []  # there was nothing to choose


@one_kind
def test_a_misspelt_setting_is_answered_with_a_question(pair_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRVR_ENGINE", "int-8")
    with pytest.raises(
        EncoderError, match=r"must be one of auto, torch, fp32, bf16, int8, int8-static. Did you mean 'int8'"
    ):
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


@pytest.mark.parametrize(
    ("package", "program"),
    [
        ("onnxruntime", "require_onnxruntime().SessionOptions()"),
        ("openvino", "require_openvino().convert_model(torch.nn.Linear(2, 2), example_input=torch.zeros(1, 2))"),
    ],
)
def test_nothing_is_reported_to_the_makers_of_a_package(tmp_path: Path, package: str, program: str) -> None:
    """Both would leave an identifier of the machine or a queue of reports in the home folder."""
    quiet = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    quiet |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    whole = f"import torch; from prvr.media.packages import require_{package}; {program}"
    subprocess.run([sys.executable, "-c", whole], env=quiet, check=True)
    left = [path for path in tmp_path.rglob("*") if "icrosoft" in str(path) or "intel" in str(path)]
    assert left == []


@one_kind
def test_ctrl_c_is_heard_after_models_were_opened_and_closed(pair_folder: Path) -> None:
    program = """
import gc, signal, sys
from prvr.media import open_encoder
from prvr.media.encoders.openvino_tower import OpenVinoTower, convert

encoder = open_encoder(sys.argv[1], device="cpu")
towers = [OpenVinoTower(convert(encoder.model, encoder.pictures, "int8"), "int8") for _ in range(6)]
while towers:
    del towers[0]
    gc.collect()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""
    done = subprocess.run([sys.executable, "-c", program, str(pair_folder)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "heard"), done.stderr
