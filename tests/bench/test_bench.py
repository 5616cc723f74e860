"""The benchmark measures real work: its corpora score alike in all engines, and its rows come out whole."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from prvr.bench import (
    BenchmarkSizes,
    MachineLimits,
    Measurement,
    Shape,
    random_gallery,
    random_queries,
    run_benchmarks,
)
from prvr.bench.run import in_order
from prvr.cli import bench as command
from prvr.cli import main
from prvr.media import openvino_installed, processor_engines
from prvr.scoring import score

CPU = torch.device("cpu")
LIMITS = MachineLimits("CPU", "none", 1, "0", "fp32", 1e12, 1e10)
TINY = BenchmarkSizes((Shape("tiny", 20, 12, 3),), single_videos=30, storage_videos=120, baseline_queries=5)


SMALL = replace(
    TINY, pictures=1, layers=1, films=3, film_seconds=6.0, film_size=(96, 72), add_seconds=0.5
)  # few and short films


def test_a_repeated_corpus_scores_as_its_parts() -> None:
    gallery = random_gallery(7, 2, CPU, "fp32", frames=20, distinct=3)
    scores = score(random_queries(4, CPU), gallery)
    torch.testing.assert_close(scores[:, 3:6], scores[:, :3])
    torch.testing.assert_close(scores[:, 6], scores[:, 0])


def test_scoring_and_ranking_give_every_row() -> None:
    rows = list(run_benchmarks(LIMITS, CPU, ("scoring", "one-query", "ranks"), TINY))
    assert [row.group for row in rows] == ["scoring"] * 3 + ["one query"] * 4 + ["ranks"]
    assert all(row.seconds > 0 for row in rows)
    assert sum(row.baseline is not None for row in rows) == 2
    assert "20 × 12" in rows[0].work


def test_training_comes_last_on_a_processor_because_it_changes_how_memory_is_kept() -> None:
    assert in_order(("training", "growth", "scoring"), CPU) == ["growth", "scoring", "training"]
    assert in_order(("training", "growth"), torch.device("cuda")) == ["training", "growth"]


@pytest.mark.slow
def test_encoding_is_measured_beside_the_matrix_rate() -> None:
    pytest.importorskip("transformers")
    rows = list(run_benchmarks(LIMITS, CPU, ("encoding",), SMALL))
    assert rows[0].group == "encoding"
    assert "fp32" in rows[0].work
    assert rows[0].rate is not None
    assert rows[0].share is not None
    assert 0 < rows[0].share < 10
    pictures = [row for row in rows if row.group == "encoding"]
    assert len(pictures) == len(processor_engines())
    assert any("by OpenVINO" in row.work for row in pictures) == openvino_installed()
    added = [row for row in rows if row.group == "adding"]
    assert [row.work.split(",")[0].split(" for ")[0] for row in added] == [
        "decode alone",
        "encode alone",
        "library add",
    ] * 2
    for decoded, encoded, whole in zip(added[::3], added[1::3], added[2::3], strict=True):
        assert decoded.rate is not None
        assert encoded.rate is not None
        assert whole.share == pytest.approx(whole.rate / min(decoded.rate, encoded.rate))  # type: ignore[operator]
        assert whole.memory


def test_the_command_prints_and_writes_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Measurement(
        "ranks", "a piece of work", 0.5, 2e9, "scores/s", 0.25, 3_000_000, baseline=1.0, note="a note [extra]"
    )
    monkeypatch.setattr(MachineLimits, "measure", lambda device: LIMITS)
    monkeypatch.setattr(command, "run_benchmarks", lambda *_: iter([row]))
    out = tmp_path / "bench.json"
    assert main(["bench", "--device", "cpu", "--only", "ranks", "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["rows"] == [asdict(row)]
    assert written["machine"] == asdict(LIMITS)
    shown = capsys.readouterr().out
    assert all(
        part in shown for part in ("a piece of work", "500 ms", "2 Gscores/s", "25 %", "3 MB", "2.0", "a note [extra]")
    )


@pytest.mark.slow
def test_growth_and_training_come_out_whole() -> None:
    sizes = replace(TINY, cpu_batch_share=32, memory_share=0.02)
    rows = list(run_benchmarks(LIMITS, CPU, ("training", "growth"), sizes))
    assert {row.group for row in rows} == {"training", "growth"}
    assert all(row.memory is None for row in rows if row.group == "training")


def test_a_device_or_a_place_that_is_not_there_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MachineLimits, "measure", lambda device: pytest.fail("measured before all was looked at"))
    assert main(["bench", "--device", "abacus"]) == 1
    assert "there is no device 'abacus'" in capsys.readouterr().err
    for place, found in (
        (tmp_path / "nowhere" / "bench.json", "is in a folder that does not exist"),
        (tmp_path, f"--out {tmp_path} is a folder: give the name of a file in it"),
        (Path("/proc/bench.json"), "cannot be written (" if Path("/proc").is_dir() else "does not exist"),
    ):
        assert main(["bench", "--device", "cpu", "--out", str(place)]) == 1
        assert found in capsys.readouterr().err
    out = str(tmp_path / "bench.json")
    assert main(["bench", "--device", "cpu", "--films", str(tmp_path / "nowhere"), "--out", out]) == 1
    assert "nowhere does not exist" in capsys.readouterr().err
    assert main(["bench", "--device", "cpu", "--films", str(tmp_path), "--out", out]) == 1
    assert "no video was found in" in capsys.readouterr().err


def test_a_bench_that_is_stopped_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(device: torch.device) -> MachineLimits:
        raise KeyboardInterrupt

    monkeypatch.setattr(MachineLimits, "measure", stopped)
    assert main(["bench", "--device", "cpu", "--out", str(tmp_path / "bench.json")]) == 130
    assert not [*tmp_path.iterdir()]


def test_an_unknown_part_is_a_usage_mistake() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--only", "colour"])
    assert stopped.value.code == 2
