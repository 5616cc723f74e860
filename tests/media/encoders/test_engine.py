"""How pictures are seen fast: types of numbers, compilation and work in flight give the vectors of float32."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from prvr.media import Encoder, open_encoder
from prvr.media.encoders import engine as module
from prvr.media.encoders.choice import EngineName
from prvr.media.encoders.engine import CPU_BATCH, PictureEngine
from prvr.media.encoders.image_text import ImageTextEncoder
from prvr.media.encoders.trial import TRIED_BATCHES, EngineTrial, Tower

CPU = torch.device("cpu")


def structured(count: int, side: int = 32) -> NDArray[np.uint8]:
    """Waves of several widths and colours."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:side, :side]
    waves = [np.sin(x / rng.uniform(1, 9)) * np.cos(y / rng.uniform(1, 9)) for _ in range(3 * count)]
    return (127 * np.stack(waves, -1).reshape(side, side, count, 3).transpose(2, 0, 1, 3) + 128).astype(np.uint8)


def engine_of(folder: Path, device: torch.device = CPU, **options: object) -> PictureEngine:
    encoder = open_encoder(str(folder), device=device.type)
    assert isinstance(encoder, ImageTextEncoder)
    return PictureEngine(encoder.model, encoder.pictures, device, **options)  # type: ignore[arg-type]


def closest(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    return float(((found * expected).sum(1) / lengths).min())


@pytest.fixture(autouse=True)
def without_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "openvino_installed", lambda: False)


def test_bf16_gives_nearly_the_same_vectors(pair_folder: Path) -> None:
    pictures = structured(CPU_BATCH)
    full = engine_of(pair_folder, engine="torch").start(pictures)()
    assert closest(engine_of(pair_folder, engine="bf16").start(pictures)(), full) > 0.995


@pytest.mark.parametrize(("cosine", "kept"), [(0.999, "bf16"), (0.99, "torch")])
def test_a_processor_that_multiplies_bf16_keeps_the_faster_engine_if_its_vectors_agree(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch, cosine: float, kept: str
) -> None:
    monkeypatch.setattr(module, "processor_engines", lambda: ("torch", "bf16"))
    monkeypatch.setattr(EngineTrial, "_try", lambda *_: (1e6, cosine))
    tried, used = engine_of(pair_folder), []
    for _ in range(TRIED_BATCHES + 1):
        tried.start(structured(3))()  # a batch that is not full decides nothing
        tried.start(structured(CPU_BATCH))()
        used.append(tried.used)
    assert used == ["torch"] * TRIED_BATCHES + [kept]


def test_weights_are_not_rounded_by_trying_a_smaller_type(pair_folder: Path) -> None:
    engine = engine_of(pair_folder, engine="bf16")
    before = {name: weights.clone() for name, weights in engine.model.state_dict().items()}
    engine.start(structured(2))()
    assert engine.used == "bf16"
    assert all(torch.equal(weights, before[name]) for name, weights in engine.model.state_dict().items())


def test_an_engine_that_cannot_be_opened_is_not_replaced_by_another(
    pair_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, open_tower, full = engine_of(pair_folder, engine="bf16"), PictureEngine._open, [True]

    def sometimes(self: PictureEngine, name: EngineName) -> Tower | None:
        if full and full.pop():
            raise OSError("disk full")
        return open_tower(self, name)

    monkeypatch.setattr(PictureEngine, "_open", sometimes)
    with pytest.raises(OSError, match="disk full"):
        engine.start(structured(2))
    assert engine.used == "torch"
    engine.start(structured(2))()
    assert engine.used == "bf16"
    assert engine._tower is not None


def test_threads_wait_while_an_engine_is_opened(pair_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, open_tower, opened, waiting = engine_of(pair_folder, engine="bf16"), PictureEngine._open, [], Event()

    def slowly(self: PictureEngine, name: EngineName) -> Tower | None:
        opened.append(name)
        waiting.wait(0.5)  # time enough for the others to come
        return open_tower(self, name)

    monkeypatch.setattr(PictureEngine, "_open", slowly)
    seen = structured(2)
    with ThreadPoolExecutor(3) as threads:
        found = [each.result() for each in [threads.submit(lambda: engine.start(seen)()) for _ in range(3)]]
    assert opened == ["bf16"]
    assert all(np.array_equal(vectors, found[0]) for vectors in found)


def test_work_in_flight_comes_back_in_order(pair_folder: Path) -> None:
    encoder: Encoder = open_encoder(str(pair_folder), device="cpu")
    images = list(structured(40))
    started = [encoder.start_frames(images[first : first + 20]) for first in (0, 20)]
    np.testing.assert_allclose(np.concatenate([each() for each in started]), encoder.encode_frames(images), atol=1e-5)


def test_without_a_working_compiler_pictures_are_encoded_as_they_are(pair_folder: Path) -> None:
    pictures = structured(CPU_BATCH)
    plain = engine_of(pair_folder).start(pictures)()
    engine = engine_of(pair_folder)

    def no_compiler(*_: object) -> None:
        raise RuntimeError("Failed to find C compiler")

    engine._parts[0].compile(backend=no_compiler)
    engine.compiled = True
    with pytest.warns(UserWarning, match="without compilation"):
        found = engine.start(pictures)()
    np.testing.assert_allclose(found, plain, atol=1e-5)
    assert not engine.compiled
    np.testing.assert_allclose(engine.start(pictures)(), plain, atol=1e-5)


@pytest.mark.gpu
def test_a_compiled_engine_sees_what_float32_sees(pair_folder: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    cuda, pictures = torch.device("cuda"), structured(300)
    parts = [pictures[:256], pictures[256:]]  # the second is smaller than what was compiled
    full = np.concatenate([engine_of(pair_folder, cuda, engine="torch").start(part)() for part in parts])
    compiled = engine_of(pair_folder, cuda, compile_after=0)
    assert closest(np.concatenate([compiled.start(part)() for part in parts]), full) > 0.995
    assert compiled.compiled
    assert compiled.used == "bf16"
