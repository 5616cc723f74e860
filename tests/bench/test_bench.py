"""The benchmark measures real work: its corpora score alike in all engines, and its rows come out whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from prvr.bench import MachineLimits, growth, plan, scoring, training
from prvr.bench.corpus import Shape, random_gallery, random_queries
from prvr.cli import main
from prvr.scoring import score

CPU = torch.device("cpu")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Shape("tiny", 20, 12, 3)
    for name in ("CHARADES", "TVR", "ACTIVITYNET"):
        monkeypatch.setattr(scoring, name, tiny)
    monkeypatch.setattr(scoring, "_SINGLE_VIDEOS", 30)
    monkeypatch.setattr(scoring, "_BASELINE_QUERIES", 5)
    fake = MachineLimits("CPU", "none", 1, "0", "fp32", 1e12, 1e10)
    monkeypatch.setattr(MachineLimits, "measure", lambda device: fake)


def test_a_repeated_corpus_scores_as_its_parts() -> None:
    gallery = random_gallery(7, 2, CPU, "fp32", frames=20, distinct=3)
    scores = score(random_queries(4, CPU), gallery)
    torch.testing.assert_close(scores[:, 3:6], scores[:, :3])
    torch.testing.assert_close(scores[:, 6], scores[:, 0])


@pytest.mark.usefixtures("small")
def test_the_command_writes_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bench.json"
    assert main(["bench", "--device", "cpu", "--only", "scoring", "one-query", "ranks", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["group"] for row in rows] == ["scoring"] * 2 + ["one query"] * 4 + ["ranks"]
    assert all(row["seconds"] > 0 for row in rows)
    assert sum(row["baseline"] is not None for row in rows) == 2
    assert "20 × 12" in capsys.readouterr().out


@pytest.mark.slow
def test_growth_and_training_come_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_CPU_SHARE", 32)
    monkeypatch.setattr(growth, "_SHARE_OF_MEMORY", 0.02)
    machine = MachineLimits("CPU", "none", 1, "0", "fp32", 1e12, 1e10)
    assert {row.group for row in plan.run_benchmarks(machine, CPU, ("training", "growth"))} == {"training", "growth"}


def test_a_device_or_a_place_that_is_not_there_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--device", "abacus"]) == 1
    assert "there is no device 'abacus'" in capsys.readouterr().err
    assert main(["bench", "--device", "cpu", "--out", str(tmp_path / "nowhere" / "bench.json")]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_an_unknown_part_is_a_usage_mistake() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--only", "colour"])
    assert stopped.value.code == 2
