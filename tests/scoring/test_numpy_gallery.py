"""The NumPy engine gives what the other engines give: scores of every pair, and the evidence of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from prvr.scoring import AlignedPairs, Gallery, NumpyGallery, gallery_evidence, score_parts
from prvr.scoring import numpy_gallery as engine
from prvr.scoring.storage import Storage
from tests.scoring.test_engines import Corpus, questions, trace_of, videos

LENGTHS = [40, 1, 300, 129, 16, 7]
TOLERANCE: dict[Storage, float] = {"fp32": 2e-6, "fp16": 1e-3, "int8": 1e-2}  # few queries are rounded as rows are


def made(storage: Storage = "fp32", *, clips: bool = False, page: int = 16, **trace: Any) -> Gallery:
    return Gallery.of_tokens(Corpus(clips), trace_of(**trace), videos(LENGTHS), storage=storage, page=page)  # type: ignore[arg-type]


def in_numpy(gallery: Gallery) -> NumpyGallery:
    arrays = {name: tensor.numpy() for name, tensor in gallery.arrays().items()}
    projection = None if gallery.query_projection is None else gallery.query_projection.numpy()
    return NumpyGallery(gallery.about, arrays, projection)


def require_equal_scores(gallery: Gallery, count: int, atol: float) -> None:
    queries = questions(count)
    expected, found = score_parts(queries, gallery, "reference"), in_numpy(gallery).score(queries.numpy())
    assert expected.trace is not None
    assert found.base == pytest.approx(expected.base.numpy(), abs=atol)
    assert found.trace == pytest.approx(expected.trace.numpy(), abs=atol)


@pytest.mark.parametrize("storage", TOLERANCE)
@pytest.mark.parametrize("count", [1, 40])
def test_scores_of_one_query_and_of_many(storage: Storage, count: int) -> None:
    require_equal_scores(made(storage), count, TOLERANCE[storage] if count == 1 else 5e-6)


@pytest.mark.parametrize(
    "options",
    [{"gate": True}, {"temperature": 0.01}, {"clips": True}, {"page": 128}, {"anchors": "hybrid", "soft_weight": 1.0}],
    ids=str,
)
def test_every_setting_of_a_gallery(options: dict[str, Any]) -> None:
    require_equal_scores(made(**options), 3, 5e-6)


def test_tokens_that_are_their_own_keys() -> None:
    """As an untrained library stores them: no keys, no query projection."""
    trace = trace_of()
    for weight in trace.projections.values():
        weight.data = torch.eye(len(weight))
    gallery = Gallery.of_tokens(Corpus(clips=False), trace, videos(LENGTHS), page=16)  # type: ignore[arg-type]
    arrays = {name: tensor.numpy() for name, tensor in gallery.arrays().items() if not name.startswith("keys.")}
    expected = score_parts(questions(), gallery, "reference")
    assert expected.trace is not None
    assert NumpyGallery(gallery.about, arrays).score(questions().numpy()).trace == pytest.approx(
        expected.trace.numpy(), abs=5e-6
    )


def test_chosen_rows_and_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    gallery, queries = in_numpy(made()), questions().numpy()
    everything = gallery.score(queries)
    monkeypatch.setattr(engine, "_LARGEST", 1 << 9)
    rows = np.array([4, 2, 2, 0])
    for found, expected in zip(gallery.score(queries, rows), everything, strict=True):
        assert found == pytest.approx(expected[:, rows], abs=1e-6)
    assert gallery.score(queries, rows[:0]).base.shape == (len(queries), 0)


@pytest.mark.parametrize("options", [{}, {"gate": True, "clips": True}, {"storage": "fp16"}], ids=str)
def test_the_evidence_of_a_pair(options: dict[str, Any]) -> None:
    gallery, queries = made(**options), questions(len(LENGTHS))
    atol = 1e-5 if gallery.storage == "fp32" else 5e-3
    expected = gallery_evidence(AlignedPairs(queries, gallery, range(len(LENGTHS)), 0.5))
    for row, query in enumerate(queries.numpy()):
        found = in_numpy(gallery).evidence(query, row, 0.5)
        for name in ("direct", "expected_support", "routed", "value"):
            curve = getattr(expected, name)[row, : expected.slots[row]].numpy()
            assert getattr(found, name) == pytest.approx(curve, abs=atol), name
        assert found.activation == pytest.approx(expected.activation[row].numpy(), abs=atol)


def test_the_best_token_has_the_score() -> None:
    gallery, query = in_numpy(made(clips=True)), questions(1).numpy()
    base, trace = gallery.score(query)
    for row in range(len(gallery)):
        assert gallery.evidence(query[0], row, 0.0).value.max() == pytest.approx(base[0, row], abs=1e-5)
    untraced = [gallery.evidence(query[0], row, 0.0).value for row in range(len(gallery))]
    traced = [gallery.evidence(query[0], row, 1.0).value for row in range(len(gallery))]
    best = [float((mine - theirs).max()) for mine, theirs in zip(traced, untraced, strict=True)]
    assert best == pytest.approx(trace[0].tolist(), abs=1e-5)
