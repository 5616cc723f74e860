"""A proxy is a complete collection, the same each time, that can be learned from unless its pairs are shuffled."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from prvr.cli import main as prvr
from prvr.data import DataError, Dataset, check_collections
from prvr.worlds import ProxyConfig, ProxySource, read_activitynet, read_charades, write_proxy

SMALL = ProxyConfig(noise="lo", hidden=32, width=16)


def frames(root: Path) -> dict[str, np.ndarray]:
    with h5py.File(root / "proxy" / "FeatureData" / "symbolic" / "feature.hdf5") as store:
        return {name: store[name][()].astype(np.float32) for name in store}


def test_both_proxies_are_complete_collections(charades: Path, activitynet: Path, encoder: Any, tmp_path: Path) -> None:
    for source in (read_charades(charades), read_activitynet(activitynet)):
        root = tmp_path / source.name
        write_proxy(root, source, encoder, SMALL, progress=False)
        report = check_collections(root)
        assert report.ok, [row for row in report.rows if row.state == "error"]
        data = Dataset.load(root, "proxy", "test")
        assert len(data) == len(source.scripts["test"])
        assert (data.visual_width, data.query_width) == (16, 24)
        assert data.moments is not None
        lengths = {script.video: round(2 * script.length) for script in source.scripts["train"]}
        found = frames(root)
        assert all(len(found[video]) == length for video, length in lengths.items())
    told = json.loads((tmp_path / "charades" / "proxy" / "proxy.json").read_text("utf-8"))
    assert told["config"]["noise"] == "lo"
    assert told["encoder"]["name"] == "stub"
    assert "may not be passed on" in told["terms"]


def test_the_seed_decides_everything_and_embeddings_are_made_once(
    charades: Path, encoder: Any, other_encoder: Any, tmp_path: Path
) -> None:
    source = read_charades(charades)
    write_proxy(tmp_path / "a", source, encoder, SMALL, progress=False)
    calls = encoder.calls
    for name, config in {
        "again": SMALL,
        "seed": replace(SMALL, seed=1),
        "loud": replace(SMALL, noise="hi"),
        "independent": replace(SMALL, shape="independent"),
    }.items():
        write_proxy(tmp_path / name, source, encoder, config, progress=False)
    assert encoder.calls == calls
    first = frames(tmp_path / "a")
    assert all(np.array_equal(rows, first[video]) for video, rows in frames(tmp_path / "again").items())
    for name in ("seed", "loud", "independent"):
        assert not any(np.allclose(rows, first[video]) for video, rows in frames(tmp_path / name).items()), name
    write_proxy(tmp_path / "other", source, other_encoder, SMALL, progress=False)
    assert other_encoder.calls > 0  # embeddings of another encoder are not taken for this one's


def test_shuffled_pairs_exchange_the_frames_of_training_and_validation_videos(
    charades: Path, encoder: Any, tmp_path: Path
) -> None:
    source = read_charades(charades)
    write_proxy(tmp_path / "own", source, encoder, SMALL, progress=False)
    write_proxy(tmp_path / "shuffled", source, encoder, replace(SMALL, control="shuffled-pairs"), progress=False)
    own, shuffled = frames(tmp_path / "own"), frames(tmp_path / "shuffled")
    for split, scripts in source.scripts.items():
        videos = [script.video for script in scripts]
        kept = [np.array_equal(own[video], shuffled[video]) for video in videos]
        assert all(kept) if split == "test" else not any(kept)
        totals = [sorted(float(found[video].sum()) for video in videos) for found in (own, shuffled)]
        assert totals[0] == totals[1]  # the same videos under other names


def test_shuffled_frames_keep_a_video_s_frames_but_not_their_order(
    charades: Path, encoder: Any, tmp_path: Path
) -> None:
    source = read_charades(charades)
    write_proxy(tmp_path / "own", source, encoder, SMALL, progress=False)
    write_proxy(tmp_path / "mixed", source, encoder, replace(SMALL, control="shuffled-frames"), progress=False)
    mixed = frames(tmp_path / "mixed")
    for video, rows in frames(tmp_path / "own").items():
        assert not np.array_equal(rows, mixed[video])
        assert np.array_equal(rows[np.lexsort(rows.T)], mixed[video][np.lexsort(mixed[video].T)])


def top_share(root: Path) -> float:
    """Share of test queries for which ridge regression from sentences to videos puts a correct video first."""
    train, test = (Dataset.load(root, "proxy", split) for split in ("train", "test"))

    def sentences(data: Dataset) -> np.ndarray:
        batch = data.query_batch(range(len(data.captions)))
        return (batch.tokens.sum(1) / batch.mask.sum(1, keepdim=True)).numpy()

    def videos(data: Dataset) -> np.ndarray:
        batch = data.video_batch(range(len(data)))
        return (batch.frames.sum(1) / batch.frame_mask.sum(1, keepdim=True)).numpy()

    told, seen = sentences(train), videos(train)
    centre = seen.mean(0)
    weights = np.linalg.solve(told.T @ told + 5 * np.eye(told.shape[1]), told.T @ (seen - centre)[train.query_video])
    guessed, gallery = sentences(test) @ weights, videos(test) - centre
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (guessed, gallery)]
    best = (unit[0] @ unit[1].T).argmax(1)
    return float(np.mean([row in right for row, right in zip(best.tolist(), test.positives, strict=True)]))


def test_a_proxy_can_be_learned_and_shuffled_pairs_cannot(larger: Path, tmp_path: Path, encoder: Any) -> None:
    source = read_charades(larger)
    only = {split: tuple(q for q in queries if q.id.endswith("#0")) for split, queries in source.annotations.items()}
    source = ProxySource(source.name, source.scripts, only)  # one sentence per action, true of a sixth of the videos
    found = {}
    for control in ("none", "shuffled-pairs"):
        write_proxy(tmp_path / control, source, encoder, replace(SMALL, control=control), progress=False)
        found[control] = top_share(tmp_path / control)
    assert found["none"] > 0.5
    assert found["shuffled-pairs"] < 0.35  # chance is the share of correct videos: about a sixth to a third


def test_an_existing_proxy_is_left_alone(charades: Path, encoder: Any, tmp_path: Path) -> None:
    source = read_charades(charades)
    write_proxy(tmp_path / "a", source, encoder, SMALL, progress=False)
    with pytest.raises(DataError, match="exists already"):
        write_proxy(tmp_path / "a", source, encoder, SMALL, progress=False)


def test_the_command_makes_a_proxy_that_can_be_trained_on(
    charades: Path, encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("prvr.cli.data.open_text_encoder", lambda name: encoder)
    out = tmp_path / "made"
    line = ["data", "proxy", "charades", "--annotations", str(charades), "--out", str(out), "--width", "16"]
    assert prvr([*line, "--noise", "lo", "--shape", "independent", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert "their times were exchanged" in printed
    assert str(out / "proxy") in printed
    small = {"model.visual-width": 16, "model.query-width": 24, "model.width": 16, "model.blocks": 2}
    small |= {"model.registers": 2, "model.frames": 16, "model.diffusion-steps": 3, "backbone-stage.epochs": 1}
    small |= {"trace-stage.epochs": 1, "trace-stage.frozen-epochs": 0, "trace-stage.snapshots": 1, "batch-size": 48}
    flags = [word for name, value in small.items() for word in (f"--{name}", str(value))]
    assert prvr(["train", "proxy", "--data", str(out), "--out", str(tmp_path / "run"), *flags]) == 0
    assert prvr([*line]) == 1  # it is there
    assert prvr([*line, "--both-directions"]) == 1
    assert prvr(["data", "proxy", "charades", "--annotations", str(tmp_path / "no"), "--out", str(out)]) == 1
    assert capsys.readouterr().err.count("error: ") == 3


def test_an_encoder_that_is_not_there_is_one_line(
    charades: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["data", "proxy", "charades", "--annotations", str(charades), "--out", str(tmp_path / "x")]
    assert prvr([*line, "--encoder", "./no-such-folder"]) == 1
    assert "neither a folder nor a hub name" in capsys.readouterr().err
