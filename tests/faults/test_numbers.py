"""NaN and infinity in features: found by the check, refused by training, conversion and ranking, with the place."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from prvr.backbones import build
from prvr.cli import main
from prvr.data.check import check_collections
from prvr.library import Library, LibraryError
from prvr.media.encoders import PlainEncoder
from prvr.scoring import Gallery, top_k
from prvr.tokens import VideoBatch
from prvr.trace import Trace
from prvr.training import Run, RunError
from prvr.training.metrics import drop_metrics, read_metrics
from prvr.worlds import RenderedWorld
from tests.cli.test_commands import fails
from tests.faults.conftest import RATE

BAD = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("bad", BAD)
def test_a_dataset(bad: float, preset: Path, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(world, tmp_path / "world", ignore=shutil.ignore_patterns(".prvr-cache"))
    (features,) = tmp_path.rglob("FeatureData/*/feature.hdf5")
    with h5py.File(features, "r+") as file:
        victim = next(name for name in file if "train" in name)
        file[victim][1, 2] = bad
    assert main(["data", "check", str(tmp_path / "world"), "--every"]) == 1
    (wrong,) = (row.found for row in check_collections(tmp_path / "world", every=True).rows if row.state == "error")
    assert f"'{victim}' holds NaN or infinity in row 1" in wrong
    capsys.readouterr()
    said = fails(capsys, "train", preset, "--data", tmp_path / "world", "--out", tmp_path / "run")
    assert f"'{victim}' holds NaN or infinity in row 1" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("bad", BAD)
def test_weights(bad: float, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.save_weights("last", {"a.weight": torch.ones(3), "b.weight": torch.tensor([1.0, bad])})
    with pytest.raises(RunError, match=r"b\.weight holds NaN or infinity"):
        run.weights("last")


def test_logs_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"epoch": 0}\n\xff\xfe\n{"epoch": 1}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl:2: not JSON"):
        read_metrics(tmp_path)
    drop_metrics(tmp_path, from_epoch=1)
    assert read_metrics(tmp_path) == [{"epoch": 0}]


@pytest.mark.parametrize("bad", BAD)
def test_a_ranking(bad: float) -> None:
    backbone = build("frozen", visual_width=16, query_width=16)
    frames, mask = torch.randn(5, 20, 16), torch.ones(5, 20)
    batch = VideoBatch(frames=frames, frame_mask=mask, clips=frames[:, :4])
    gallery = Gallery.build(backbone, Trace(16), [batch])
    queries = torch.randn(3, 16)
    assert torch.isfinite(top_k(queries, gallery, k=2).scores).all()
    queries[1, 3] = bad
    with pytest.raises(ValueError, match="NaN or infinite values"):
        top_k(queries, gallery, k=2)


class Broken(PlainEncoder):
    """Gives no numbers for some things."""

    def encode_texts(self, texts):  # type: ignore[no-untyped-def]
        found = super().encode_texts(texts)
        found[[text == "a green circle" for text in texts]] = np.nan
        return found


def test_an_encoder_of_queries(films: RenderedWorld, whole: Library) -> None:
    lib = Library.open(whole.folder, encoder=Broken())
    assert len(lib.search("a red square")) > 0
    with pytest.raises(LibraryError, match="returned NaN or infinity"):
        lib.search("a green circle")


class Blind(PlainEncoder):
    """Gives no numbers for pictures."""

    def encode_frames(self, images, before=None):  # type: ignore[no-untyped-def]
        return np.full_like(super().encode_frames(images, before), np.inf)


def test_an_encoder_of_frames(films: RenderedWorld, tmp_path: Path) -> None:
    lib = Library.create(tmp_path / "library", rate=RATE, encoder=Blind())
    report = lib.add(sorted(films.videos.values())[:2])
    assert len(report.failed) == 2
    assert all("NaN or infinity" in reason for reason in report.failed.values())
    assert lib.verify().ok
