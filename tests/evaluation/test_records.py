"""A record comes back from disk as it went, and a damaged one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.evaluation import (
    EvaluationProtocol,
    EvaluationRecord,
    describe_weights,
    load_record,
    recalls,
    save_record,
    summarise,
)
from prvr.evaluation.records import RecordError
from prvr.training import load_preset

PROTOCOL = EvaluationProtocol("charades", "test", "best epoch on validation", seeds=(1, 2), notes="frühe Fassung")
RECORD = EvaluationRecord(
    query_ids=("VID01#0", 'comma, "quote"', "ünïcode"),
    video_ids=("VID01", "VID02", "VID02"),
    ranks={"base": torch.tensor([2, 7, 1]), "trace": torch.tensor([1, 8, 1])},
    protocol=PROTOCOL,
)


def test_a_record_comes_back_whole(tmp_path: Path) -> None:
    back = load_record(save_record(RECORD, tmp_path / "new" / "folder"))
    assert back.query_ids == RECORD.query_ids
    assert back.video_ids == RECORD.video_ids
    assert back.protocol == PROTOCOL
    assert list(back.ranks) == ["base", "trace"]
    assert all(torch.equal(back.ranks[name], RECORD.ranks[name]) for name in back.ranks)


def test_the_files_are_plain_and_complete(tmp_path: Path) -> None:
    save_record(RECORD, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranks.csv", "summary.json"]
    lines = (tmp_path / "ranks.csv").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["query_id,video_id,base,trace", "VID01#0,VID01,2,1"]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["recalls"]["trace"] == recalls(RECORD.ranks["trace"]).as_dict()
    assert summary["protocol"]["selection"] == "best epoch on validation"


def test_records_of_several_seeds_can_be_summarised(tmp_path: Path) -> None:
    again = replace(RECORD, ranks={"base": torch.tensor([1, 1, 1]), "trace": torch.tensor([1, 1, 1])})
    folders = [save_record(RECORD, tmp_path / "1"), save_record(again, tmp_path / "2")]
    assert summarise([load_record(folder).recalls()["base"] for folder in folders]).mean.r1 == pytest.approx(200 / 3)


def test_a_write_that_fails_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_record(RECORD, tmp_path)

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_record(replace(RECORD, ranks={"base": torch.tensor([9, 9, 9])}), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranks.csv", "summary.json"]
    assert load_record(tmp_path).ranks["base"].tolist() == [2, 7, 1]


def test_ranks_and_summary_of_different_runs_are_refused(tmp_path: Path) -> None:
    save_record(RECORD, tmp_path)
    table = tmp_path / "ranks.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("VID01,2,1", "VID01,1,1"), encoding="utf-8")
    with pytest.raises(RecordError, match="expected both from one run"):
        load_record(tmp_path)


@pytest.mark.parametrize(
    ("found", "message"),
    [("query,video\n", "expected .'query_id', 'video_id'."), ("query_id,video_id,base\na,b,x\n", "line 2: found")],
)
def test_a_foreign_table_is_refused(tmp_path: Path, found: str, message: str) -> None:
    save_record(RECORD, tmp_path)
    (tmp_path / "ranks.csv").write_text(found, encoding="utf-8")
    with pytest.raises(RecordError, match=message):
        load_record(tmp_path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    save_record(RECORD, tmp_path)
    (tmp_path / "summary.json").write_text('{"format": "other/2"}', encoding="utf-8")
    with pytest.raises(RecordError, match="format 'other/2', expected 'prvr-evaluation/1'"):
        load_record(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"video_ids": ("one",)}, "3 query ids with 1 video ids"),
        ({"query_ids": ("a", "a", "b")}, "query ids repeat"),
        ({"ranks": {}}, "at least one name"),
        ({"ranks": {"video_id": torch.tensor([1, 1, 1])}}, "none of"),
        ({"ranks": {"base": torch.tensor([1])}}, "has 1 ranks for 3 queries"),
    ],
)
def test_a_record_must_be_consistent(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(RECORD, **change)


def test_weights_from_before_trace_counts_say_so() -> None:
    """Otherwise every difference on the page is zero, and nothing says why."""
    config = load_preset("charades")
    early = describe_weights("best", {"epoch": 120, "fusion_weight": 0.0}, config)
    assert early == (
        "epoch 121, the best on the val split, before TRACE entered the score (λ = 0): it ranks as the base branch does"
    )
    late = describe_weights("best", {"epoch": 150, "fusion_weight": 0.03}, config)
    assert late == "epoch 151, the best on the val split"
    interrupted = describe_weights("backbone-best", {"epoch": 3, "fusion_weight": 0.0}, config)
    assert interrupted == "epoch 4, the best so far on the val split"
    alone = replace(config, trace_stage=replace(config.trace_stage, epochs=0))
    assert describe_weights("best", {"epoch": 20, "fusion_weight": 0.0}, alone) == "epoch 21, the best on the val split"
