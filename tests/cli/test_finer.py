"""``eval --finer``, ``--query-bank``, other datasets, ``explain --errors``: numbers recomputed from the files left."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.evaluation import load_record
from prvr.training import Run
from prvr.worlds import FEATURE_SIZES, write_feature_world

KS = (1, 5, 10, 100)


@pytest.fixture(scope="module")
def data(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny world, whose test queries have types as TVR's have."""
    root = tmp_path_factory.mktemp("typed")
    shutil.copytree(world, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".prvr-cache"))
    path = root / "synth" / "TextData" / "synthtest.moments.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    typed = [{**row, "type": ("v", "t", "vt")[number % 3]} for number, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in typed), encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def run(trained: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(trained, out)
    Run(out).set_data(data)
    return out


@pytest.fixture(scope="module")
def folder(run: Path) -> Path:
    assert main(["eval", str(run), "--finer", "--query-bank"]) == 0
    return run / "eval" / "test-average"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def recalls_of(ranks: list[int]) -> dict[str, float]:
    found = {f"r{k}": 100 * sum(0 < rank <= k for rank in ranks) / len(ranks) for k in KS}
    return {**found, "sum_r": sum(found.values()), "count": len(ranks)}


def test_groups_and_positives_follow_from_the_files(folder: Path, data: Path) -> None:
    finer = json.loads((folder / "finer.json").read_text("utf-8"))
    queries, ranks = read(folder / "queries.csv"), read(folder / "ranks.csv")
    known = [json.loads(line) for line in (data / "synth/TextData/synthtest.moments.jsonl").open(encoding="utf-8")]
    moments = {row["query_id"]: row for row in known}
    for name, low, high in (("(0, 0.2]", 0, 0.2), ("(0.2, 0.4]", 0.2, 0.4), ("(0.4, 1]", 0.4, 1)):
        inside = []
        for query, rank in zip(queries, ranks, strict=True):
            moment = moments[query["query_id"]]
            ratio = (moment["end"] - moment["start"]) / moment["duration"]
            assert float(query["ratio"]) == pytest.approx(ratio)
            inside += [int(rank["trace"])] if low < ratio <= high else []
        assert (name in finer["ratio"]["bins"]) == bool(inside)
        if inside:
            assert finer["ratio"]["bins"][name]["trace"] == pytest.approx(recalls_of(inside))
    for kind, name in (("v", "video"), ("t", "subtitle"), ("vt", "video + subtitle")):
        chosen = [int(r["base"]) for q, r in zip(queries, ranks, strict=True) if q["type"] == kind]
        assert finer["types"][name]["base"] == pytest.approx(recalls_of(chosen))
    places = [[int(rank) for rank in query["trace_positive_ranks"].split()] for query in queries]
    precision = [sum(n / rank for n, rank in enumerate(found, 1)) / len(found) for found in places]
    assert finer["positives"]["trace"]["mean_average_precision"] == pytest.approx(100 * sum(precision) / len(precision))
    assert [min(found) for found in places] == [int(rank["trace_any"]) for rank in ranks]


def test_moments_and_hubs_follow_from_the_files(folder: Path, data: Path) -> None:
    finer = json.loads((folder / "finer.json").read_text("utf-8"))
    queries = {row["query_id"]: row for row in read(folder / "queries.csv")}
    firsts = {row["query_id"]: row for row in read(folder / "moments.csv")}
    known = [json.loads(line) for line in (data / "synth/TextData/synthtest.moments.jsonl").open(encoding="utf-8")]
    moments = {row["query_id"]: row for row in known}
    first: dict[str, list[int]] = {"base": [], "trace": []}
    with gzip.open(folder / "predictions.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            scores = [score for *_, score in row["predictions"]]
            assert scores == sorted(scores, reverse=True)
            assert len(scores) <= 100
            moment, place = moments[row["query_id"]], 0
            for number, (video, start, end, _) in enumerate(row["predictions"], start=1):
                start, end = start * moment["duration"], end * moment["duration"]
                shared = max(0.0, min(end, moment["end"]) - max(start, moment["start"]))
                union = end - start + moment["end"] - moment["start"] - shared
                if video == moment["video"] and shared / union >= 0.5 - 1e-6 and not place:
                    place = number
            assert int(firsts[row["query_id"]][f"{row['scoring']}_vcmr_0.5"]) == place
            first[row["scoring"]].append(place)
    for scoring, found in first.items():
        expected = {name: value for name, value in recalls_of(found).items() if name not in ("sum_r", "count")}
        assert finer["moments"][scoring]["vcmr"]["0.5"] == pytest.approx(expected)
    counts = Counter(video for query in queries.values() for video in query["trace_top10"].split())
    hubs = finer["hubs"]["trace"]
    assert {hub["video"]: hub["queries"] for hub in hubs["hubs"]}.items() <= counts.items()
    assert hubs["largest"] == max(counts.values())
    record = load_record(folder)
    assert {"base_bank", "trace_bank"} <= set(record.ranks)
    assert re.fullmatch(r"query bank: \d+ sentences of synth train", record.protocol.notes)


def test_the_report_has_the_same_numbers(folder: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", str(run), "--query-bank", "--only", "retrieval", "positives", "ratio", "types", "vcmr", "hubs"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert all(words in text for words in ("TRACE, query bank", "video + subtitle", "right video R@5", "Top hubs"))
    finer = json.loads((folder / "finer.json").read_text("utf-8"))
    tables = run / "report" / "test-average" / "tables"
    rows = [row for row in read(tables / "vcmr.csv") if row["scoring"] == "TRACE"]
    for row in rows:
        assert float(row["R@10"]) == pytest.approx(finer["moments"]["trace"]["vcmr"][row["IoU"]]["r10"], abs=2.0)
    named = {row["scoring"]: row for row in read(tables / "hubs.csv")}
    assert float(named["TRACE"]["skewness"]) == pytest.approx(finer["hubs"]["trace"]["skewness"], abs=0.1)
    record = load_record(folder)
    shown = {row["scoring"]: float(row["SumR"]) for row in read(tables / "retrieval.csv")}
    assert shown["TRACE, query bank"] == pytest.approx(record.recalls()["trace_bank"].sum_r, abs=1.0)
    assert main(["eval", str(run)]) == 0
    assert "Hubs" not in capsys.readouterr().out, "ordinary output stays short"
    assert not (folder / "finer.json").exists(), "nothing is left of an earlier evaluation"


def test_a_bank_for_a_run_that_has_no_data_of_its_own(run: Path, data: Path, tmp_path: Path) -> None:
    """As one from the hub."""
    copy = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("eval", "report"))
    record = json.loads((copy / "run.json").read_text("utf-8"))
    del record["data"]
    (copy / "run.json").write_text(json.dumps(record), encoding="utf-8")
    assert main(["eval", str(copy), "--data", str(data), "--query-bank"]) == 0
    assert "sentences of synth train" in load_record(copy / "eval" / "test-average").protocol.notes


def copy_elsewhere(data: Path, folder: Path) -> Path:
    """The dataset again, under another name."""
    other = folder / "elsewhere"
    shutil.copytree(data / "synth", other, ignore=shutil.ignore_patterns(".prvr-cache"))
    for path in [*(other / "TextData").iterdir()]:
        path.rename(path.with_name(path.name.replace("synth", "elsewhere")))
    return other


def test_another_dataset_is_named_everywhere(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_elsewhere(data, tmp_path / "other")
    assert main(["eval", str(run), "--data", str(tmp_path / "other"), "--query-bank"]) == 0
    assert "elsewhere test: " in (text := " ".join(capsys.readouterr().out.split()))
    assert "cross-dataset: trained on synth" in text
    record = load_record(run / "eval" / "elsewhere-test-average")
    assert (record.protocol.dataset, record.protocol.trained_on) == ("elsewhere", "synth")
    assert load_record(run / "eval" / "test-average").protocol.trained_on == ""
    assert main(["report", str(run), "--data", str(tmp_path / "other"), "--only", "retrieval"]) == 0
    page = run / "report" / "elsewhere-test-average" / "report-retrieval.html"
    assert "cross-dataset: trained on synth" in page.read_text("utf-8")
    capsys.readouterr()
    write_feature_world(tmp_path / "seed9", replace(FEATURE_SIZES["tiny"], seed=9), progress=False)
    assert main(["eval", str(run), "--data", str(tmp_path / "seed9")]) == 0
    assert "cross-dataset" in capsys.readouterr().out, "the same name, and other sentences"
    assert (run / "eval" / "seed9-test-average").is_dir()
    write_feature_world(tmp_path / "wide", replace(FEATURE_SIZES["tiny"], visual_width=30), progress=False)
    (tmp_path / "wide" / "synth").rename(tmp_path / "wide" / "big")
    for path in [*(tmp_path / "wide" / "big" / "TextData").iterdir()]:
        path.rename(path.with_name(path.name.replace("synth", "big")))
    assert main(["eval", str(run), "--data", str(tmp_path / "wide")]) == 1
    assert "visual width 30, but the model expects 24: a run that was trained on synth" in error(capsys)
    (tmp_path / "empty").mkdir()
    assert main(["eval", str(run), "--data", str(tmp_path / "empty")]) == 1
    assert "holds no dataset. The run was trained on synth" in error(capsys)


def test_of_several_features_in_another_dataset_none_is_guessed(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copy_elsewhere(data, tmp_path / "other")
    features, command = other / "FeatureData", ["eval", str(run), "--data", str(tmp_path / "other")]
    shutil.copytree(features / "synth", features / "second")
    assert main(command) == 0, "one has the name of those that the run was trained on"
    (features / "synth").rename(features / "synth-large")
    assert main(command) == 1
    found = error(capsys)
    assert f"holds several features (second, synth-large), and {run} was trained on synth: keep the one" in found
    assert "--data.visual-feature" not in found, "eval has no such option"
    shutil.rmtree(features / "second")
    assert main(command) == 0, "the only one is read, though its name begins like the other's"


def error(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_errors_are_one_page_that_needs_nothing_else(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(run), "--errors", "6"]) == 0
    assert "the first answer is wrong for" in capsys.readouterr().out
    page = (run / "explain" / "errors-test-average.html").read_text("utf-8")
    without_names = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|rdf:\w+="[^"]*"', "", page)
    assert not re.search(r"<(script|link|img|iframe)|@import|url\((?!#)", without_names)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    rows = read(run / "explain" / "errors-test-average.csv")
    assert len(rows) == 6 == page.count("<article")
    ranks = {row["query_id"]: row for row in read(run / "eval" / "test-average" / "ranks.csv")}
    for row in rows:
        known = ranks[row["query_id"]]
        assert (row["base_rank"], row["final_rank"]) == (known["base"], known["trace"])
        assert row["video_id"] == known["video_id"]
    assert main(["explain", str(run), "--errors", "2", "--weights", "backbone"]) == 0
    page = (run / "explain" / "errors-test-backbone.html").read_text("utf-8")
    assert "This run has no TRACE" in page
    assert page.count(f"More: <code>prvr explain {run} --weights backbone --query ") == 2
    capsys.readouterr()
    assert main(["explain", str(run), "--errors", "0"]) == 1
    assert "choose between 1 and 100 mistakes" in error(capsys)
    assert main(["explain", str(run)]) == 1
    assert "either --query WORDS" in error(capsys)
