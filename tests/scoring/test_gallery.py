"""A gallery: built from a model in a stream, kept on disk, cut, moved and joined without changing a score."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from prvr.backbones import Backbone, build
from prvr.scoring import Gallery, NotSeparable, disk, score, score_parts
from prvr.scoring.disk import GalleryError
from prvr.scoring.storage import STORAGE, Storage, Vectors
from prvr.tokens import VideoBatch
from prvr.trace import Trace, TraceConfig


@pytest.fixture
def backbone() -> Backbone:
    return build("dreamprvr", visual_width=6, query_width=5, width=16, blocks=2, registers=3, frames=16).eval()


@pytest.fixture
def trace() -> Trace:
    return Trace(16, TraceConfig(init="random"))


@pytest.fixture
def queries() -> Tensor:
    return torch.randn(7, 16)


def videos(lengths: list[int]) -> VideoBatch:
    mask = torch.arange(16) < torch.tensor(lengths)[:, None]
    return VideoBatch(
        torch.randn(len(lengths), 16, 6), mask, torch.randn(len(lengths), 32, 6), tuple(map(str, lengths))
    )


def test_it_gives_the_backbones_own_score_plus_the_evidence(backbone: Backbone, trace: Trace, queries: Tensor) -> None:
    batch = videos([16, 1, 9, 4, 1])
    with torch.no_grad():
        tokens = backbone.encode_videos(batch.frames, batch.frame_mask, batch.clips)
        base, evidence = backbone.base_score(queries, tokens), trace.evidence(queries, tokens).score
        found = score_parts(queries, Gallery.build(backbone, trace, [batch]))
    torch.testing.assert_close(found.base, base, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.trace, evidence, atol=1e-5, rtol=0)


@pytest.mark.parametrize("storage", STORAGE)
def test_it_survives_the_disk(
    storage: Storage, backbone: Backbone, trace: Trace, queries: Tensor, tmp_path: Path
) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 3, 9])], storage=storage)
    gallery.save(tmp_path / "gallery")
    loaded = Gallery.load(tmp_path / "gallery")
    assert (loaded.ids, loaded.storage, loaded.bytes) == (("16", "3", "9"), storage, gallery.bytes)
    assert torch.equal(score(queries, loaded), score(queries, gallery))
    assert [p.name for p in tmp_path.iterdir()] == ["gallery"]


def test_without_trace_it_survives_the_disk_too(backbone: Backbone, queries: Tensor, tmp_path: Path) -> None:
    gallery = Gallery.build(backbone, None, [videos([16, 3])])
    assert score_parts(queries, gallery).trace is None
    gallery.save(tmp_path / "gallery")
    assert torch.equal(score(queries, Gallery.load(tmp_path / "gallery")), score(queries, gallery))


def test_built_to_disk_in_a_stream_it_is_the_same(
    backbone: Backbone, trace: Trace, queries: Tensor, tmp_path: Path
) -> None:
    batches = [videos([16, 3, 9]), videos([1]), videos([5, 16])]
    mapped = Gallery.build(backbone, trace, iter(batches), path=tmp_path / "gallery")
    whole = Gallery.build(backbone, trace, batches)
    assert torch.equal(score(queries, mapped), score(queries, whole))
    assert mapped.ids == ("16", "3", "9", "1", "5", "16")


def test_a_build_that_fails_leaves_the_older_gallery(backbone: Backbone, trace: Trace, tmp_path: Path) -> None:
    Gallery.build(backbone, trace, [videos([2])], path=tmp_path / "gallery")

    def stream() -> Iterator[VideoBatch]:
        yield videos([3])
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        Gallery.build(backbone, trace, stream(), path=tmp_path / "gallery")
    assert Gallery.load(tmp_path / "gallery").ids == ("2",)
    assert [p.name for p in tmp_path.iterdir()] == ["gallery"]


def test_damage_is_named(backbone: Backbone, trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "gallery"
    with pytest.raises(GalleryError, match="is not a gallery: it has no"):
        Gallery.load(path)
    Gallery.build(backbone, trace, [videos([2])], path=path)
    with open(path / "local.values.bin", "r+b") as file:
        file.truncate(100)
    with pytest.raises(GalleryError, match=r"local.values.bin holds 100 bytes, expected 1024: the gallery is damaged"):
        Gallery.load(path)
    about = json.loads((path / "gallery.json").read_text())
    (path / "gallery.json").write_text(json.dumps(about | {"format": "prvr-gallery-99"}))
    with pytest.raises(GalleryError, match="found 'prvr-gallery-99'"):
        Gallery.load(path)


def test_a_run_of_videos_scores_as_it_did_within_the_whole(backbone: Backbone, trace: Trace, queries: Tensor) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 3, 9, 5])])
    torch.testing.assert_close(score(queries, gallery[1:3]), score(queries, gallery)[:, 1:3], atol=1e-6, rtol=0)
    assert gallery[1:3].ids == ("3", "9")
    assert len(gallery[4:9]) == 0


def test_another_storage_is_a_conversion_away(backbone: Backbone, trace: Trace, queries: Tensor) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 3, 9, 5])])
    half = gallery.to(storage="fp16")
    assert half.bytes < 0.6 * gallery.bytes
    torch.testing.assert_close(score(queries, half), score(queries, gallery), atol=1e-3, rtol=0)


def test_building_leaves_the_model_as_it_was(backbone: Backbone, trace: Trace) -> None:
    Gallery.build(backbone.train(), trace, [videos([2])])
    assert backbone.training


def test_what_cannot_be_prepared_is_refused(backbone: Backbone, trace: Trace, tmp_path: Path) -> None:
    for path in (None, tmp_path / "gallery"):
        with pytest.raises(ValueError, match="no videos"):
            Gallery.build(backbone, trace, [], path=path)
    with pytest.raises(ValueError, match="have no valid frame"):
        Gallery.build(backbone, trace, [videos([2, 0])])
    with pytest.raises(ValueError, match="unknown storage 'int4'"):
        Gallery.build(backbone, trace, [videos([2])], storage="int4")  # type: ignore[arg-type]
    backbone.separable = False
    with pytest.raises(NotSeparable, match="dreamprvr scores each query–video pair by itself"):
        Gallery.build(backbone, trace, [videos([2])])


def test_only_galleries_made_alike_are_joined(backbone: Backbone, trace: Trace, tmp_path: Path) -> None:
    def made(with_trace: Trace | None = trace, storage: Storage = "fp32") -> Gallery:
        return Gallery.build(backbone, with_trace, [videos([2])], storage=storage)

    parts = [made(), made()]
    assert len(Gallery.cat(parts)) == 2
    assert parts == []
    for other in (made(storage="int8"), made(None), made(Trace(16, TraceConfig(temperature=0.1)))):
        for pair in ([made(), other], [other, made()]):
            with pytest.raises(ValueError, match="galleries differ in how they were made"):
                Gallery.cat(pair)
            assert len(pair) == 2
    with pytest.raises(ValueError, match="no galleries"):
        Gallery.cat([])
    with pytest.raises(ValueError, match=r"parts of one gallery differ in 'local.values'"):
        disk.write_gallery(tmp_path / "gallery", iter([made().record(), made(storage="fp16").record()]))
    assert list(tmp_path.iterdir()) == []


def test_it_remembers_no_gradients(backbone: Backbone, trace: Trace) -> None:
    batch = videos([2, 5])
    tokens = backbone.encode_videos(batch.frames, batch.frame_mask, batch.clips)
    gallery = Gallery.of_tokens(backbone, trace, tokens)
    assert not any(tensor.requires_grad for tensor in gallery.arrays().values())


def test_the_page_can_be_chosen_and_changes_no_score(backbone: Backbone, trace: Trace, queries: Tensor) -> None:
    batches = [videos([2, 1]), videos([16, 3, 9])]
    narrow, wide = (Gallery.build(backbone, trace, batches, page=page) for page in (16, 32))
    assert (narrow.page, wide.page) == (16, 32)
    torch.testing.assert_close(score(queries, narrow), score(queries, wide), atol=1e-6, rtol=0)


def test_galleries_of_different_models_are_not_joined(backbone: Backbone, trace: Trace, tmp_path: Path) -> None:
    other = Trace(16, TraceConfig(init="random"))
    parts = [Gallery.build(backbone, each, [videos([4, 5])]) for each in (trace, other)]
    with pytest.raises(ValueError, match="different models"):
        Gallery.cat(list(parts))
    with pytest.raises(ValueError, match="different models"):
        disk.write_gallery(tmp_path / "gallery", (part.record() for part in parts))


def test_vectors_too_long_for_half_floats_are_refused() -> None:
    with pytest.raises(ValueError, match="bf16"):
        Vectors.store(torch.tensor([[1e5, 0.0]]), "fp16")


def test_chosen_videos_score_as_they_did_within_the_whole(backbone: Backbone, trace: Trace, queries: Tensor) -> None:
    gallery = Gallery.build(backbone, trace, [videos([16, 1, 9]), videos([4, 12])], page=16)
    chosen = [3, 0, 4]
    found = gallery.take(chosen)
    assert found.ids == tuple(gallery.ids[number] for number in chosen)
    torch.testing.assert_close(score(queries, found), score(queries, gallery)[:, chosen], atol=1e-6, rtol=0)
