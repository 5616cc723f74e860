"""``prvr report`` and ``prvr explain`` on a run trained in a second: files, numbers, and what a run cannot show."""

from __future__ import annotations

import csv
import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from prvr.cli import main as prvr
from prvr.evaluation import REPORT_SECTIONS, load_record, recalls
from prvr.trace import READINGS

FLAGS = ["--checkpoint-seconds", "0"]
MSSL = """
method = "mssl"
batch_size = 10
selection = "last"
[data]
collection = "synth"
[model]
visual_width = 24
query_width = 20
width = 16
frames = 24
[backbone_stage]
epochs = 1
[trace_stage]
epochs = 0
"""


@pytest.fixture(scope="module")
def runs(trained: Path, world: Path, preset: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with TRACE, the same backbone without it, and a method that scores pairs anew."""
    out = tmp_path_factory.mktemp("runs")
    shutil.copytree(trained, out / "trace")
    alone = ["--trace-stage.epochs", "0", "--selection", "last"]
    assert prvr(["train", str(preset), "--data", str(world), "--out", str(out / "alone"), *alone, *FLAGS]) == 0
    mssl = out / "mssl.toml"
    mssl.write_text(MSSL, encoding="utf-8")
    assert prvr(["train", str(mssl), "--data", str(world), "--out", str(out / "mssl"), *FLAGS]) == 0
    return {path.name: path for path in out.iterdir() if path.is_dir()}


@pytest.fixture(scope="module")
def report(runs: dict[str, Path]) -> Path:
    assert prvr(["report", str(runs["trace"])]) == 0
    return runs["trace"] / "report" / "test-average"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def column(path: Path, name: str) -> torch.Tensor:
    return torch.tensor([int(row[name]) for row in read(path)])


def test_the_page_needs_nothing_but_itself(report: Path) -> None:
    page = (report / "report.html").read_text("utf-8")
    assert all(f'<section id="{key}">' in page for key in REPORT_SECTIONS)
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|rdf:\w+="[^"]*"', "", page)
    assert not re.search(r"<(script|link|img|iframe)|@import|url\((?!#)", without_names)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "figures keep their ids apart"


def test_every_table_has_csv_and_latex_and_every_figure_png_and_svg(report: Path) -> None:
    tables, figures = report / "tables", report / "figures"
    names = {path.stem for path in tables.glob("*.csv")}
    assert names >= {"retrieval", "ablation", "corruption", "significance", "sensitivity", "efficiency", "agreement"}
    assert names == {path.stem for path in tables.glob("*.tex")}
    assert {path.stem for path in figures.glob("*.png")} == {path.stem for path in figures.glob("*.svg")} != set()
    assert (tables / "ablation.tex").read_text("utf-8").count(r"\\") == 14  # with four more readings


def test_tables_can_be_recomputed_from_the_saved_ranks(report: Path) -> None:
    ranks = report / "ranks.csv"
    keys = ["trace", "base", "direct_only", "soft_only", "direct_soft", "registers_only", "uniform", "route_only"]
    for row, key in zip(
        read(report / "tables" / "ablation.csv"),
        [*keys, "average", *(reading.key for reading in READINGS)],
        strict=True,
    ):
        found = column(ranks, key)
        assert float(row["SumR"]) == pytest.approx(
            sum(100 * float((found <= k).double().mean()) for k in (1, 5, 10, 100))
        )
    moved = read(report / "tables" / "rank_changes.csv")[0]
    gain = column(ranks, "base") - column(ranks, "trace")
    assert int(moved["rank↑"]) == int((gain > 0).sum())
    assert float(moved["mean gain"]) == pytest.approx(float(gain.double().mean()))
    queries = read(report / "queries.csv")
    flags = [int(q["agrees_trace"]) for q in queries]
    stated = read(report / "tables" / "agreement.csv")[-1]["in the best clip, %"]
    assert float(stated) == pytest.approx(100 * sum(flags) / len(flags))
    hits = [float(q["iou1_trace"]) >= 0.5 - 1e-6 for q in queries if q["iou1_trace"]]
    curve = next(r for r in read(report / "tables" / "moments.csv") if r["curve"].startswith("TRACE"))
    assert float(curve["R@1, IoU 0.5"]) == pytest.approx(100 * sum(hits) / len(hits))
    errors = sorted((float(q["negative_gap"]) for q, r in zip(queries, read(ranks), strict=True) if int(r["base"]) > 1))
    top = read(report / "tables" / "subsets.csv")[-1]
    assert float(top["mean gap"]) == pytest.approx(sum(errors[-int(top["count"]) :]) / int(top["count"]), rel=1e-5)


def test_ranks_are_those_of_eval(report: Path, runs: dict[str, Path]) -> None:
    assert prvr(["eval", str(runs["trace"])]) == 0
    record = load_record(runs["trace"] / "eval" / "test-average")
    for name in ("base", "trace", "base_any", "trace_any"):
        assert torch.equal(column(report / "ranks.csv", name), record.ranks[name]), name


def test_one_section_is_printed_and_named_by_its_command(
    report: Path, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"prvr report {runs['trace']} --only corruption"
    assert command in (report / "report.html").read_text("utf-8")
    assert prvr(command.split()[1:]) == 0
    text = capsys.readouterr().out
    assert "uniform q→R" in text
    assert "shuffle R→F" in text
    assert (report / "report-corruption.html").is_file()
    assert prvr(["report", str(runs["trace"]), "--only", "abltion"]) == 1
    assert "no section abltion. Did you mean 'ablation'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["alone", "mssl"])
def test_a_run_without_trace_says_what_it_cannot_show(runs: dict[str, Path], name: str) -> None:
    assert prvr(["report", str(runs[name])]) == 0
    page = (runs[name] / "report" / "test-last" / "report.html").read_text("utf-8")
    assert "This run has no TRACE" in page
    assert "Retrieval (%)" in page
    assert "Moment retrieval in the right video" in page
    assert (runs[name] / "report" / "test-last" / "tables" / "efficiency.csv").is_file()


def test_two_runs_are_compared_query_by_query(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    a, b = runs["alone"], runs["trace"]
    assert prvr(["report", str(a), str(b)]) == 0
    folder = b / "report" / "against-alone"
    first, second = column(folder / "ranks.csv", "alone: base"), column(folder / "ranks.csv", "trace: trace")
    row = read(folder / "tables" / "difference.csv")[0]
    assert float(row["B − A"]) == pytest.approx(recalls(second).sum_r - recalls(first).sum_r)
    wins = read(folder / "tables" / "wins.csv")[0]
    assert int(wins["rank↑"]) == int((second < first).sum())
    assert prvr(["report", str(a), str(b), "--only", "difference"]) == 0
    assert "97.5 %" in capsys.readouterr().out
    assert prvr(["report", str(a), str(b), str(a)]) == 1
    assert "found 3" in capsys.readouterr().err


def test_a_run_with_a_witness_is_compared_by_it(
    runs: dict[str, Path], world: Path, preset: Path, tmp_path: Path
) -> None:
    out, few = tmp_path / "witness", ["--witness-stage.steps", "3", "--witness-stage.queries", "4"]
    assert prvr(["train", str(preset), "--data", str(world), "--out", str(out), *few, *FLAGS]) == 0
    assert prvr(["report", str(runs["trace"]), str(out), "--only", "recalls"]) == 0
    folder = out / "report" / "against-trace"
    assert [row["scoring"] for row in read(folder / "tables" / "recalls.csv")] == ["TRACE", "witness"]
    own = load_record(out / "eval" / "test-average").ranks["witness"]
    assert torch.equal(column(folder / "ranks.csv", "witness: witness"), own)


@pytest.mark.parametrize(
    "option", [["--labels", "x"], ["--videos", "x"], ["--query-bank"], ["--vcmr"], ["--retrained", "x"]]
)
def test_options_of_one_run_are_refused_for_two(
    option: list[str], runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert prvr(["report", str(runs["trace"]), str(runs["alone"]), *option]) == 1
    assert f"{option[0]}: only for the report of one run" in capsys.readouterr().err


def test_retrained_runs_of_one_name_are_told_apart(runs: dict[str, Path], tmp_path: Path) -> None:
    copies = [shutil.copytree(runs["alone"], tmp_path / seed / "base") for seed in ("p1", "p2")]
    command = ["report", str(runs["trace"]), "--only", "ablation", "--out", str(tmp_path / "page"), "--retrained"]
    assert prvr([*command, *map(str, copies)]) == 0
    shown = [row["variant"] for row in read(tmp_path / "page" / "tables" / "ablation.csv")]
    assert {f"retrained: {copy}" for copy in copies} <= {*shown}


def test_retrained_runs_stand_beside_their_row(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", str(runs["trace"]), "--only", "ablation", "--out", str(tmp_path), "--retrained"]
    assert prvr([*command, str(runs["alone"])]) == 0
    table = read(tmp_path / "tables" / "ablation.csv")
    alone = next(row for row in table if row["variant"] == "retrained: alone")
    assert (alone["row"], alone["what it is"]) == ("(1)", "--trace-stage.epochs 0")
    assert [row["variant"] for row in table].index("retrained: alone") == 2
    assert prvr([*command, str(runs["trace"])]) == 1
    assert "not an ablation row" in capsys.readouterr().err


def test_labels_from_an_archive_count_every_correct_video(
    runs: dict[str, Path], report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = read(report / "ranks.csv")
    videos = sorted({q["video_id"] for q in queries})
    lines = [json.dumps({"query_id": q["query_id"], "caption": "", "gt_video_ids": videos}) for q in queries]
    with zipfile.ZipFile(tmp_path / "labels.zip", "w") as archive:
        archive.writestr("synth/synthdenseval.gt.jsonl", "\n".join(lines))
        archive.writestr("other/otherdenseval.gt.jsonl", "{}")
    command = ["report", str(runs["trace"]), "--only", "positives", "--out", str(tmp_path / "out"), "--labels"]
    assert prvr([*command, str(tmp_path / "labels.zip")]) == 0
    assert f"names {len(queries)} of {len(queries)} queries" in " ".join(capsys.readouterr().out.split())
    table = read(tmp_path / "out" / "tables" / "positives.csv")
    assert float(table[1]["R@1"]) == 100.0, "every video is correct, so any first one is"
    part = tmp_path / "part.gt.jsonl"
    part.write_text("\n".join(lines[:3]), encoding="utf-8")
    assert prvr([*command, str(part)]) == 0
    assert f"names 3 of {len(queries)} queries" in " ".join(capsys.readouterr().out.split())
    part.write_text(json.dumps({"query_id": "of another split", "gt_video_ids": videos}), encoding="utf-8")
    assert prvr([*command, str(part)]) == 1
    assert "names none of" in capsys.readouterr().err
    assert prvr([*command, str(tmp_path / "missing.zip")]) == 1
    assert "missing.zip cannot be read" in capsys.readouterr().err


def test_explain_draws_a_chart_and_a_figure(
    runs: dict[str, Path], report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = read(report / "queries.csv")[0]
    run = str(runs["trace"])
    assert prvr(["explain", run, "--query", query["query_id"], "--video", query["hard_negative"]]) == 0
    text = capsys.readouterr().out
    assert query["sentence"] in text
    assert "not the video it was written for" in text
    assert all(curve in text for curve in ("direct d", "support ḡ", "routed d+γρ", "▲"))
    assert list((runs["trace"] / "explain").glob("*.png"))
    assert prvr(["explain", run, "--query", "no such words at all"]) == 1
    assert "no query of test" in capsys.readouterr().err
    assert prvr(["explain", run, "--query", query["query_id"], "--video", "nowhere"]) == 1
    assert "no video 'nowhere'" in capsys.readouterr().err
    assert prvr(["explain", str(runs["alone"]), "--query", query["query_id"]]) == 0
    assert "has no TRACE" in capsys.readouterr().out
    assert list((runs["alone"] / "explain").glob("*.svg"))
