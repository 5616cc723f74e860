"""The tables of a witness study are computed from each query's ranks."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import witness_tables

ROOT = Path(__file__).parents[2]
KEYS = ("words", "pooled", "shuffled", "uniform")
SCORINGS = ["base", "hubs", *KEYS, *(f"{key}+hubs" for key in KEYS)]


def write_result(archive: zipfile.ZipFile, cell: str, seed: int, base: str = "usual") -> None:
    """Forty queries of twenty videos: all at rank 6, and at rank 5 with words and hubs."""
    weights, seconds = {"hubs": 0.5, "words+hubs": 0.3, "pooled+hubs": 0.1}, {"witness": 3.0}
    support: dict[str, float | str] = {
        "supported": 0.5,
        "correct_if_supported": 0.4,
        "correct_if_not": 0.1,
        "reading": "place",
    }
    support["lead of the base"] = 0.2
    about = {
        "cell": cell,
        "seed": seed,
        "base": base,
        "weights": weights,
        "seconds": seconds,
        "step seconds": [4.0, 5.0],
    }
    about |= {"support": support, "validation": {"base": 1.0, "words+hubs": 2.0}}
    columns = [f"{name}{ending}" for ending in ("", "_any") for name in SCORINGS]
    lines = [",".join(["query_id", "video_id", *columns])]
    for query in range(40):
        ranks = ["5" if name.startswith("words+hubs") else "6" for name in columns]
        lines.append(",".join([f"q{query}", f"v{query // 2}", *ranks]))
    archive.writestr(f"{cell}-seed{seed}-{base}/about.json", json.dumps(about))
    archive.writestr(f"{cell}-seed{seed}-{base}/ranks.csv", "\n".join(lines) + "\n")


def test_tables_come_from_the_ranks(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        for cell in ("activitynet-correlated", "world"):
            for seed in (0, 1):
                write_result(archive, cell, seed)
        write_result(archive, "world", 0, "alike")
        write_result(archive, "world", 1, "longer")
    command = [sys.executable, str(ROOT / "benchmarks" / "witness_tables.py"), str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in shown.stdout.splitlines() if line.startswith("| **words and hub offset**")]
    assert rows[0].count("+100.00 [+100.00, +100.00]") == 3  # two cells, and both together
    gain = "+100.00 [+100.00, +100.00]"
    assert f"| the same, words and hub offset |  | {gain} (1 of 2) | {gain} |" in shown.stdout
    above_longer = shown.stdout.partition("### Against a base of twice the epochs")[2]
    assert f"| **words and hub offset** | {gain} | {gain} |" in above_longer
    assert "| validation SumR | activitynet-correlated | world |\n|---|--:|--:|\n| recipe | 2.0 | 2.0 |" in shown.stdout
    assert "| world | 50 % | 40.0 % | 10.0 % | +30.0 | place | +20.0 |" in shown.stdout
    assert "| base (SumR, seeds) | 200.0 ± 0.0 | 200.0 ± 0.0 | |" in shown.stdout


def test_a_longer_base_stands_beside_the_usual_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        write_result(archive, "world", 0)
        write_result(archive, "world", 0, "longer")
    (result,) = witness_tables.joined(list(witness_tables.read_results(tmp_path)))
    longer = witness_tables.pooled([result.pair("longer:hubs", "longer:words+hubs")])
    assert longer.delta == pytest.approx(100.0)  # from rank 6 to rank 5 moves R@5 alone


def test_the_page_says_what_the_kept_ranks_say() -> None:
    """docs/findings.md quotes these differences; benchmarks/results holds the rank of every query behind them."""
    found = witness_tables.joined(list(witness_tables.read_results(ROOT / "benchmarks" / "results" / "worlds.zip")))
    world = [result for result in found if result.cell == "world"]
    page = (ROOT / "docs" / "findings.md").read_text().replace("−", "-")
    for before, after in (("base", "longer:base"), ("base", "words+hubs"), ("longer:hubs", "longer:words+hubs")):
        said = witness_tables.interval(witness_tables.pooled([result.pair(before, after) for result in world]))
        assert said in page, f"{after} against {before}"
