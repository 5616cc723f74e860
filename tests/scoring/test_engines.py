"""One contract for all engines, and a gallery that survives the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import Backbone, build
from prvr.scoring import Gallery, NotSeparable, score, score_parts, top_k
from prvr.scoring import engines as engines_module
from prvr.tokens import VideoBatch
from prvr.trace import Trace, TraceConfig

ENGINES = ["reference", "torch"]
BEYOND = [{"gate": True}, {"anchors": "hybrid"}, {"gate": True, "anchors": "hybrid"}]


@pytest.fixture
def backbone() -> Backbone:
    return build("dreamprvr", visual_width=6, query_width=5, width=16, blocks=2, registers=3, frames=16).eval()


@pytest.fixture
def trace() -> Trace:
    return Trace(16, TraceConfig(init="random"))


def videos(lengths: list[int]) -> VideoBatch:
    mask = torch.arange(16) < torch.tensor(lengths)[:, None]
    return VideoBatch(
        torch.randn(len(lengths), 16, 6), mask, torch.randn(len(lengths), 32, 6), tuple(map(str, lengths))
    )


@pytest.fixture
def queries() -> Tensor:
    return torch.randn(7, 16)


def direct_score(backbone: Backbone, trace: Trace, batch: VideoBatch, queries: Tensor) -> Tensor:
    tokens = backbone.encode_videos(batch.frames, batch.frame_mask, batch.clips)
    evidence = trace.evidence(queries, tokens)
    return backbone.base_score(queries, tokens) + trace.config.fusion_weight * evidence.score


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_the_backbones_score_plus_evidence(
    engine: Any, backbone: Backbone, trace: Trace, queries: Tensor
) -> None:
    batch = videos([16, 1, 9, 4, 1])
    with torch.no_grad():
        gallery = Gallery.build(backbone, trace, [batch])
        expected = direct_score(backbone, trace, batch, queries)
    torch.testing.assert_close(score(queries, gallery, engine), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "option", [{"gate": True}, {"anchors": "hybrid"}, {"gate": True, "anchors": "hybrid"}], ids=str
)
def test_what_goes_beyond_the_paper_is_the_same_in_every_engine(
    engine: Any, option: dict[str, Any], backbone: Backbone, trace: Trace, queries: Tensor, tmp_path: Path
) -> None:
    beyond, batch = Trace(16, replace(trace.config, **option)), videos([16, 1, 9])
    beyond.load_state_dict(trace.state_dict())
    with torch.no_grad():
        Gallery.build(backbone, beyond, [batch]).save(tmp_path / "gallery")
        gallery = Gallery.load(tmp_path / "gallery")
        expected = direct_score(backbone, beyond, batch, queries)
        assert not torch.allclose(expected, direct_score(backbone, trace, batch, queries))
    torch.testing.assert_close(score(queries, gallery, engine), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_tiles_do_not_show(
    engine: Any, backbone: Backbone, trace: Trace, queries: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 3, 9]), videos([5, 1])])
    whole = score_parts(queries, gallery, engine)
    monkeypatch.setattr(engines_module, "TILE_ELEMENTS", 1)
    tiled = score_parts(queries, gallery, engine)
    torch.testing.assert_close(tiled.base, whole.base, atol=1e-6, rtol=0)
    torch.testing.assert_close(tiled.trace, whole.trace, atol=1e-6, rtol=0)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_top_k_is_the_head_of_the_sorted_scores(
    k: int, backbone: Backbone, trace: Trace, queries: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 3, 9, 5, 1, 2])])
    expected = score(queries, gallery).sort(dim=1, descending=True, stable=True)
    monkeypatch.setattr(engines_module, "TILE_ELEMENTS", 2 * 7 * 32)  # two videos at a time
    top = top_k(queries, gallery, k=k)
    assert torch.equal(top.indices, expected.indices[:, :k])
    torch.testing.assert_close(top.scores, expected.values[:, :k], atol=1e-6, rtol=0)


def test_a_gallery_survives_the_disk(backbone: Backbone, trace: Trace, queries: Tensor, tmp_path: Path) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 3, 9])])
    gallery.save(tmp_path / "gallery")
    loaded = Gallery.load(tmp_path / "gallery")
    assert loaded.ids == ("16", "3", "9")
    assert torch.equal(score(queries, loaded), score(queries, gallery))
    assert [p.name for p in tmp_path.iterdir()] == ["gallery"]


def test_a_gallery_without_trace_gives_base_scores(backbone: Backbone, queries: Tensor, tmp_path: Path) -> None:
    gallery = Gallery.build(backbone, None, [videos([16, 3])])
    assert score_parts(queries, gallery).trace is None
    gallery.save(tmp_path / "gallery")
    assert torch.equal(score(queries, Gallery.load(tmp_path / "gallery")), score(queries, gallery))


def test_building_leaves_the_model_as_it_was(backbone: Backbone, trace: Trace) -> None:
    Gallery.build(backbone.train(), trace, [videos([2])])
    assert backbone.training


def test_what_cannot_be_scored_is_refused_by_name(backbone: Backbone, trace: Trace, queries: Tensor) -> None:
    gallery = Gallery.build(backbone, trace, [videos([2])])
    with pytest.raises(ValueError, match="unknown engine 'cuda'; there are: auto, reference, torch"):
        score(queries, gallery, "cuda")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no videos"):
        Gallery.build(backbone, trace, [])
    backbone.separable = False  # type: ignore[misc]
    with pytest.raises(NotSeparable, match="dreamprvr scores each query–video pair anew"):
        Gallery.build(backbone, trace, [videos([2])])
