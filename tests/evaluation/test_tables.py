"""Tables show the paper's columns; deviations appear from two seeds on."""

from __future__ import annotations

import csv
import io

import pytest
import torch
from rich.console import Console

from prvr.evaluation import Recall, recall_table, recalls, summarise

BASE, TRACE = torch.tensor([1, 3, 30, 200]), torch.tensor([1, 1, 20, 200])


def test_text_lines_up() -> None:
    lines = recall_table({"base": BASE, "TRACE": TRACE}, note="best epoch on validation").text().splitlines()
    assert lines == [
        "        R@1   R@5  R@10  R@100   SumR",
        "base   25.0  50.0  50.0   75.0  200.0",
        "TRACE  50.0  50.0  50.0   75.0  225.0",
        "best epoch on validation",
    ]


def test_markdown_sets_the_best_of_a_column_in_bold() -> None:
    lines = recall_table({"base": BASE, "a|b": TRACE}).markdown().splitlines()
    assert lines[0] == "|  | R@1 | R@5 | R@10 | R@100 | SumR |"
    assert lines[2] == "| base | 25.0 | **50.0** | **50.0** | **75.0** | 200.0 |"
    assert lines[3] == "| a\\|b | **50.0** | **50.0** | **50.0** | **75.0** | **225.0** |"


def test_csv_keeps_every_digit() -> None:
    third = torch.tensor([1, 200, 200])
    (row,) = csv.DictReader(io.StringIO(recall_table({"third": third}).csv()))
    assert float(row["r1"]) == 100 / 3
    assert row["r1_sd"] == ""
    assert (row["queries"], row["runs"]) == ("3", "1")


def test_rich_shows_the_same_cells() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(recall_table({"base [not markup]": BASE, "TRACE": TRACE}, note="a note"))
    shown = console.export_text()
    for cell in ("base [not markup]", "TRACE", "R@100", "225.0", "a note"):
        assert cell in shown


def test_seeds_are_summarised_by_mean_and_sample_deviation() -> None:
    runs = [Recall(((1, 10.0), (5, 20.0)), 50), Recall(((1, 12.0), (5, 18.0)), 50), Recall(((1, 14.0), (5, 16.0)), 50)]
    summary = summarise(runs)
    assert summary.mean == Recall(((1, 12.0), (5, 18.0)), 50)
    # R@1 and R@5 vary by 2, yet against each other: their sum does not vary at all.
    assert summary.sd == pytest.approx({"r1": 2.0, "r5": 2.0, "sum_r": 0.0})
    assert recall_table({"mean of 3": runs}).cells() == [["mean of 3", "12.0 ± 2.0", "18.0 ± 2.0", "30.0 ± 0.0"]]


def test_one_seed_shows_no_deviation() -> None:
    assert summarise([recalls(BASE)]).sd is None
    assert "±" not in str(recall_table({"one": [recalls(BASE)]}))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recall_table({}), "without rows"),
        (lambda: summarise([]), "at least one Recall"),
        (lambda: summarise([recalls(BASE), recalls(BASE[:2])]), "2 queries .* 4 queries"),
        (lambda: recall_table({"a": BASE, "b": recalls(BASE, ks=(1,))}), "different cut-offs"),
    ],
)
def test_rows_that_do_not_belong_together_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
