"""The comparison of engines judges vectors by cosine and by answers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from prvr.media import unit_rows

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import encoder_engines


def test_vectors_that_differ_or_answer_otherwise_are_not_on_by_default() -> None:
    rng = np.random.default_rng(0)
    picture = np.zeros((4, 4, 3), np.uint8)
    films = encoder_engines.Films([picture] * 80, np.arange(80) // 2, [])
    full = unit_rows(rng.normal(size=(80, 64)).astype(np.float32))

    def judged(vectors: np.ndarray, noise: float) -> tuple[str, ...]:
        other = unit_rows(vectors + noise * unit_rows(rng.normal(size=vectors.shape)))
        return encoder_engines.compare(other, vectors, films, "int8", sentences=False)

    assert judged(full, 0.0) == ("1.0000 / 1.0000", "1.0000 / 1.0000", "–", "100.0 %", "yes")
    assert judged(full, 0.3)[-1] == "no"  # too far from fp32
    alike = unit_rows(full * 0.02 + np.eye(64, dtype=np.float32)[0])  # as random weights make them: nearly one vector
    cosine, centred, _, overlap, verdict = judged(alike, 0.02)
    assert float(cosine.split()[0]) > 0.995  # which says little here,
    assert float(centred.split()[0]) < 0.9  # but the centred cosine and the answers do
    assert float(overlap.split()[0]) < 95
    assert verdict == "no"


@pytest.mark.parametrize(("engine", "verdict"), [("int8", "yes"), ("int8-static", "no")])
def test_an_engine_is_judged_by_the_cosine_that_is_required_of_it(engine: str, verdict: str) -> None:
    films = encoder_engines.Films([np.zeros((4, 4, 3), np.uint8)] * 10, np.arange(10), [])  # all are in the top ten
    full = np.eye(10, 20, dtype=np.float32)
    other = unit_rows(full + 0.0775 * np.eye(10, 20, k=10, dtype=np.float32))  # 1 / √(1 + 0.0775²) = 0.997
    found = encoder_engines.compare(other, full, films, engine, sentences=False)
    assert (found[0], found[-1]) == ("0.9970 / 0.9970", verdict)
