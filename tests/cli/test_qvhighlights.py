"""From QVHighlights' files to moments in a report, on the command line; annotations and features of our own making."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.training import Run

SIZES = {"train": 12, "val": 6, "test": 6}
SHORT = [
    *("--backbone-stage.epochs", "1", "--trace-stage.epochs", "1", "--trace-stage.fusion-start", "0"),
    *("--model.width", "16", "--model.heads", "2", "--model.blocks", "2", "--model.registers", "2"),
    *("--batch-size", "6", "--data.features", "clip-b32"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Annotations converted, and features beside them as Moment-DETR publishes them."""
    root = tmp_path_factory.mktemp("qv")
    rng, collection, qid = np.random.default_rng(0), root / "qvhighlights", 0
    for split, videos in SIZES.items():
        rows = []
        for number in range(videos):
            qid, vid = qid + 1, f"{split}{number}_60.0_210.0"
            windows = [[10, 30], [100, 120]] if number % 2 else [[40, 80]]
            rows.append({"qid": qid, "query": f"thing {qid} happens", "vid": vid, "duration": 150})
            rows[-1] |= {"relevant_windows": windows} if split != "test" else {}
            frames, meaning = 0.3 * rng.standard_normal((75, 512)), rng.standard_normal(512)
            for start, end in windows:
                frames[start // 2 : end // 2] += meaning
            save(collection / "FeatureData" / "clip_features" / f"{vid}.npz", features=frames)
            words = np.tile(meaning, (4, 1))
            save(collection / "TextData" / "clip_text_features" / f"qid{qid}.npz", last_hidden_state=words)
        path = root / "annotations" / f"highlight_{split}_release.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["data", "convert", str(root / "annotations"), "--out", str(collection)]) == 0
    return root


def save(path: Path, **arrays: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: array.astype(np.float32) for name, array in arrays.items()})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "qvhighlights", "--data", str(data), "--out", str(out), *SHORT]) == 0
    return out


def test_the_features_are_known_and_a_preset_fits(data: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(data)]) == 0
    assert "clip-b32: CLIP ViT-B/32, by Moment-DETR" in capsys.readouterr().out
    config = Run(run).config
    assert (config.data.visual_feature, config.model.visual_width, config.model.query_width) == (
        "clip_features",
        512,
        512,
    )


def test_moments_with_several_windows_are_measured(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run)]) == 0  # the test split has no moments
    assert main(["report", str(run), "--split", "val", "--only", "moments"]) == 0
    assert "Moment retrieval" in capsys.readouterr().out
    assert (
        main(["explain", str(run), "--split", "val", "--query", "thing 14 happens", "--video", "val1_60.0_210.0"]) == 0
    )


def test_features_that_are_not_there_are_named(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["train", "qvhighlights", "--data", str(data), "--out", str(tmp_path / "run")]
    assert main([*line, "--data.features", "clip-l14"]) == 1
    assert (
        "holds no clip-l14 features (qvhighlights_clip_L14, clip-l14); found: clip_features" in capsys.readouterr().err
    )
    assert main([*line, "--data.features", "clip-l41"]) == 1
    assert "Did you mean 'clip-l14'?" in capsys.readouterr().err
    assert main(line) == 1  # the preset's own features
    assert "--data.features clip-b32 reads what is there" in capsys.readouterr().err
