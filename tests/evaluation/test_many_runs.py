"""Tables of many runs: recomputed from the files that hold every query's rank, and never over different queries."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest
import torch

from prvr.cli import main as prvr
from prvr.evaluation import (
    EvaluationProtocol,
    EvaluationRecord,
    cluster_changes,
    is_evaluated,
    load_record,
    save_record,
)
from prvr.training import STARTED_FROM, Run, load_preset

VIDEOS, PER_VIDEO = 40, 3
KS = (1, 5, 10, 100)


def make_run(
    folder: Path,
    method: str,
    seed: int,
    *,
    data: str = "data",
    lift: float = 1.0,
    queries: int = 0,
    weight: float = 0.03,
    split: str = "test",
) -> Path:
    """A run that was ranked on charades; with TRACE, ranks get better by ``lift``."""
    path = folder / f"{method}-{weight}-{Path(data).name}-seed{seed}"
    config = load_preset("charades", method)
    config = replace(config, seed=seed, trace=replace(config.trace, fusion_weight=weight))
    Run(path).create(config, folder / data)
    draw = random.Random(f"{method} {seed} {data}")
    videos = [f"v{number // PER_VIDEO}" for number in range(VIDEOS * PER_VIDEO + queries)]
    base = [draw.randint(1, 40 if method == "dreamprvr" else 60) for _ in videos]
    ranks = {"base": torch.tensor(base)}
    if config.trace_stage.epochs:
        ranks["trace"] = torch.tensor([max(1, round(rank / lift)) for rank in base])
    ids = [f"{video}#{number}" for number, video in enumerate(videos)]
    order = list(range(len(ids)))
    draw.shuffle(order)  # records need not list queries in the same order
    record = EvaluationRecord(
        tuple(ids[place] for place in order),
        tuple(videos[place] for place in order),
        {name: found[torch.tensor(order)] for name, found in ranks.items()},
        EvaluationProtocol("charades", split, "the last epoch", (seed,)),
    )
    save_record(record, path / "eval" / f"{split}-{config.selection}")
    return path


def change_record(run: Path, **changes: object) -> None:
    """Change entries of run.json; None removes one."""
    record = Run(run).record | changes
    kept = {name: value for name, value in record.items() if value is not None}
    (run / "run.json").write_text(json.dumps(kept), encoding="utf-8")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [make_run(folder, method, seed, lift=1.5) for method in ("dreamprvr", "hlformer") for seed in (0, 1, 2)]


@pytest.fixture(scope="module")
def compared(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compared")
    assert prvr(["compare", *map(str, runs), "--no-eval", "--out", str(out)]) == 0
    return out


def recompute(folders: Sequence[Path], column: str) -> dict[str, list[float]]:
    """R@K and SumR of every seed, by nothing but the files of single runs."""
    found: dict[str, list[float]] = {}
    for folder in folders:
        ranks = [int(row[column]) for row in read(next(folder.glob("eval/test-*")) / "ranks.csv")]
        recalls = [100 * sum(rank <= k for rank in ranks) / len(ranks) for k in KS]
        for name, value in zip([*(f"R@{k}" for k in KS), "SumR"], [*recalls, sum(recalls)], strict=True):
            found.setdefault(name, []).append(value)
    return found


def test_tables_are_those_of_the_per_query_files(runs: list[Path], compared: Path) -> None:
    table = {row["method"]: row for row in read(compared / "tables" / "recalls-charades.csv")}
    sums = {}
    for name, folders, column in (
        ("dreamprvr, base branch", runs[:3], "base"),
        ("dreamprvr + TRACE", runs[:3], "trace"),
        ("hlformer", runs[3:], "base"),
    ):
        seeds = recompute(folders, column)
        for title, values in seeds.items():
            assert float(table[name][title]) == pytest.approx(mean(values))
            assert float(table[name][f"{title} sd"]) == pytest.approx(stdev(values))
        assert table[name]["seeds"] == "3"
        sums[name] = mean(seeds["SumR"])
    for row in read(compared / "tables" / "differences-charades.csv"):
        change = sums[row["method"]] - sums["dreamprvr, base branch"]
        assert float(row["ΔSumR"]) == pytest.approx(change)
        assert float(row["2.5 %"]) < change < float(row["97.5 %"])
    joined = read(compared / "ranks" / "charades.csv")
    one = [100 * sum(int(row[f"hlformer, seed {seed}"]) <= 1 for row in joined) / len(joined) for seed in (0, 1, 2)]
    assert float(table["hlformer"]["R@1"]) == pytest.approx(mean(one))


def test_published_rows_stand_beside_and_are_marked(compared: Path) -> None:
    table = {row["method"]: row for row in read(compared / "tables" / "recalls-charades.csv")}
    assert float(table["trace, published"]["SumR"]) == 81.1
    assert float(table["hlformer, published"]["R@1"]) == 2.6
    assert "gmmformer, published" not in table
    latex = (compared / "tables" / "table1.tex").read_text("utf-8")
    below = latex.split(r"\midrule")[2]
    assert r"dreamprvr (published) & 2.6 & 8.7 & 14.5 & 54.2 & 80.0 \\" in below
    assert r"\multicolumn{5}{c}{charades}" in latex
    cost = {row["method"]: row for row in read(compared / "tables" / "cost-charades.csv")}
    assert cost["hlformer, published"]["train, ms/epoch"] == "31463"
    text = (compared / "comparison.md").read_text("utf-8")
    assert "Published: best epoch on the reported split" in text
    page = (compared / "comparison.html").read_text("utf-8")
    assert '<td class="text">trace, published</td>' in page


def test_the_interval_draws_whole_videos(compared: Path) -> None:
    """Against a loop that draws videos with their queries, one after the other."""
    joined = read(compared / "ranks" / "charades.csv")
    of = {"before": "dreamprvr, base branch", "after": "hlformer"}
    meets = {
        side: np.array([mean(sum(int(row[f"{name}, seed {s}"]) <= k for k in KS) for s in (0, 1, 2)) for row in joined])
        for side, name in of.items()
    }
    change = meets["after"] - meets["before"]
    videos = [row["video_id"] for row in joined]
    groups = [change[[place for place, v in enumerate(videos) if v == video]] for video in sorted(set(videos))]
    draw = random.Random(1)
    drawn = [100 * np.concatenate(draw.choices(groups, k=len(groups))).mean() for _ in range(4000)]
    row = next(r for r in read(compared / "tables" / "differences-charades.csv") if r["method"] == "hlformer")
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert [float(row["2.5 %"]), float(row["97.5 %"])] == pytest.approx([low, high], abs=0.1 * (high - low))
    copies = cluster_changes(np.repeat(change[:, None], 2, 0), np.repeat(videos, 2).tolist())
    assert copies.estimate(0).low == pytest.approx(float(row["2.5 %"]), abs=0.1 * (high - low)), "copies add nothing"


def test_other_queries_and_other_folders_are_never_paired(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = make_run(tmp_path, "mssl", 0, data="copy")
    words = ["compare", *map(str, [*runs, elsewhere]), "--no-eval", "--out", str(tmp_path / "out")]
    assert prvr(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "never compared with the other one of that name" in told
    assert "--same-data" in told
    methods = {row["method"] for row in read(tmp_path / "out" / "tables" / "differences-charades-1.csv")}
    assert "mssl" not in methods
    assert not (tmp_path / "out" / "tables" / "differences-charades-2.csv").exists()
    assert prvr([*words, "--same-data"]) == 0
    assert "mssl has seeds 0, dreamprvr, base branch 0, 1, 2; all of each count" in capsys.readouterr().out
    assert "mssl" in {row["method"] for row in read(tmp_path / "out" / "tables" / "differences-charades.csv")}
    longer = make_run(tmp_path, "gmmformer", 0, queries=6)
    assert prvr(["compare", str(runs[0]), str(longer), "--no-eval", "--same-data"]) == 0
    assert "126 queries" in capsys.readouterr().out


def test_settings_that_differ_make_rows_of_their_own(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = [make_run(tmp_path, "dreamprvr", seed, weight=weight) for weight in (0.01, 0.1) for seed in (0, 1)]
    assert prvr(["compare", *map(str, grid), "--no-eval", "--against", "dreamprvr, trace.fusion_weight 0.1"]) == 0
    text = capsys.readouterr().out
    assert "dreamprvr, trace.fusion_weight 0.01 + TRACE" in text
    assert "0.1 + TRACE, seed 1 ranks exactly as its base branch (weights: the last epoch)" in text
    assert "compared with dreamprvr, trace.fusion_weight 0.1, base branch" in text
    assert prvr(["compare", *map(str, runs), "--no-eval", "--against", "hlfromer"]) == 1
    assert "no such row. Did you mean 'hlformer'?" in capsys.readouterr().err
    twin = make_run(tmp_path / "twin", "hlformer", 0, data=str(runs[0].parent / "data"))
    assert prvr(["compare", *map(str, runs), str(twin), "--no-eval"]) == 1
    assert "have the same method, settings and seed: leave one out" in capsys.readouterr().err


def test_kept_ranks_are_enough_where_the_data_is_gone_or_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = [make_run(tmp_path, method, 0, split="val") for method in ("dreamprvr", "hlformer")]
    for run in hub:
        change_record(run, data=None)
    for words in (["--no-eval"], ["--device", "cpu"]):
        assert prvr(["compare", *map(str, hub), *words]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "these are ranks of val" in told
        assert ("hlformer was not timed on charades" in told) == (words != ["--no-eval"])
    gone = make_run(tmp_path, "mssl", 0)
    cost = {"backbone_parameters": 4_560_000, "trace_parameters": 0, "seconds": {}, "processor": "another machine"}
    place = next(gone.glob("eval/test-*")) / "cost.json"
    place.write_text(json.dumps(cost | {"videos": 40, "queries": 120}), encoding="utf-8")
    assert prvr(["compare", str(gone), "--device", "cpu"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "4.56" in told
    assert "what was kept is shown" in told
    shutil.rmtree(hub[0] / "eval")
    assert prvr(["compare", *map(str, hub), "--device", "cpu"]) == 1
    assert f"`prvr eval {hub[0]} --split test --data FOLDER` first" in " ".join(capsys.readouterr().err.split())


def test_datasets_over_the_same_videos_are_drawn_together(runs: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in runs]
    for run in copies:
        change_record(run, data=str(tmp_path))
    assert prvr(["compare", *map(str, [*runs, *copies]), "--no-eval", "--out", str(tmp_path / "out")]) == 0
    one, both = (
        read(tmp_path / "out" / "tables" / f"differences-{name}.csv") for name in ("charades-1", "all-datasets")
    )
    for row, alone in zip(both, one, strict=True):
        assert {name: float(row[name]) for name in row if name != "method"} == pytest.approx(
            {name: float(alone[name]) for name in alone if name != "method"}
        ), "a copy adds nothing"


def test_datasets_that_share_most_videos_are_not_taken_for_independent(runs: list[Path], tmp_path: Path) -> None:
    longer = [make_run(tmp_path, "dreamprvr", seed, lift=1.5, queries=6) for seed in (0, 1, 2)]  # two videos more
    for run in longer:
        change_record(run, data=str(runs[0].parent / "data"))
    assert prvr(["compare", *map(str, [*runs[:3], *longer]), "--no-eval", "--out", str(tmp_path / "out")]) == 0
    one, both = (
        float(row["97.5 %"]) - float(row["2.5 %"])
        for name in ("charades-1", "all-datasets")
        for row in read(tmp_path / "out" / "tables" / f"differences-{name}.csv")
    )
    assert both / one == pytest.approx(1, abs=0.1), "independent ones would have 0.7"


def test_every_run_is_listed_with_its_last_scoring(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, "dreamprvr", seed) for seed in (0, 1)]
    older = next((runs[1] / "eval").iterdir())
    record = load_record(older)
    save_record(replace(record, ranks={"base": record.ranks["base"]}), older)
    assert prvr(["compare", *map(str, runs), "--no-eval", "--out", str(tmp_path / "out")]) == 0
    listed = {(row["seed"], row["method"]) for row in read(tmp_path / "out" / "tables" / "runs.csv")}
    assert listed == {("0", "dreamprvr + TRACE"), ("1", "dreamprvr, base branch")}


def test_ranks_of_before_a_witness_was_trained_are_out_of_date(tmp_path: Path) -> None:
    run = Run(make_run(tmp_path, "hlformer", 0))
    folder = next(run.path.glob("eval/*"))
    shutil.copytree(folder, folder.with_name("test-last"))
    for name in ("average", "last"):
        run.save_weights(name, {"weight": torch.zeros(1)})
        os.utime(run.path / "weights" / name / "model.safetensors", (0, 0))
    assert is_evaluated(run, "test", None)
    run.save_weights("witness", {"weight": torch.zeros(1)})
    later = folder.stat().st_mtime + 60
    os.utime(run.path / "weights" / "witness" / "model.safetensors", (later, later))
    assert not is_evaluated(run, "test", None)
    assert is_evaluated(run, "test", "last")


def test_runs_that_started_from_different_ones_are_rows_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name in ("a", "b"):
        for seed in (0, 1):
            runs.append(make_run(tmp_path / name, "hlformer", seed, data=str(tmp_path / "data")))
            change_record(runs[-1], **{STARTED_FROM: f"runs/{name}-seed{seed}"})
    assert prvr(["compare", *map(str, runs[:2]), "--no-eval"]) == 0
    assert "from runs/" not in capsys.readouterr().out, "other seeds of one start are one row"
    out = tmp_path / "out"
    assert prvr(["compare", *map(str, runs), "--no-eval", "--published", "none", "--out", str(out)]) == 0
    table = {row["method"]: row["seeds"] for row in read(out / "tables" / "recalls-charades.csv")}
    assert table == {"hlformer, from runs/a": "2", "hlformer, from runs/b": "2"}


def test_a_run_without_ranks_says_what_to_do(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prvr(["compare", str(runs[0]), "--split", "val", "--no-eval"]) == 1
    assert "has not been ranked on val: leave out --no-eval" in capsys.readouterr().err
    assert prvr(["compare", str(tmp_path)]) == 1
    assert "neither a run (run.json) nor a sweep (sweep.json)" in capsys.readouterr().err
    (tmp_path / "sweep.json").write_text("{}", encoding="utf-8")
    assert prvr(["compare", str(tmp_path / "logs")]) == 1
    assert f"`prvr compare {tmp_path}` takes all runs of that sweep" in " ".join(capsys.readouterr().err.split())
    assert prvr(["compare"]) == 1
