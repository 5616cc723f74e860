"""Which mistakes are shown follows from the rules alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prvr.evaluation.mistakes import RankedQueries, choose_mistakes, write_mistakes
from prvr.evaluation.mistakes.choose import candidates_by_kind
from prvr.evaluation.subject import Subject
from prvr.training import RunError


def six_queries(*, with_trace: bool = True) -> RankedQueries:
    """Query n is about video n; query 4 has a second correct video, 9, which is first for it."""
    return RankedQueries(
        base_ranks=torch.tensor([8, 1, 2, 3, 2, 1]),
        final_ranks=torch.tensor([2, 4, 2, 3, 2, 1]),
        truth=torch.arange(6),
        base_first=torch.tensor([7, 1, 8, 8, 9, 5]),
        first=torch.tensor([8, 8, 8, 8, 9, 5]),
        lead=torch.tensor([0.1, 0.3, 0.01, 0.2, 0.05, 0.0]),
        best_correct=torch.tensor([2, 4, 2, 3, 1, 1]),
        positives=[(0,), (1,), (2,), (3,), (4, 9), (5,)],
        gap=torch.tensor([0.1, 0.1, 0.5, 0.6, 0.9, 0.9]) if with_trace else None,
        truth_gap=torch.tensor([0.2, 0.2, 0.4, 0.2, 0.1, 0.9]) if with_trace else None,
    )


def test_every_kind_orders_its_queries_by_its_rule() -> None:
    found = candidates_by_kind(six_queries())
    assert found == {
        "lifted": [0],
        "dropped": [1],
        "unsupported": [3, 2],  # by 0.4 and 0.1; query 4's first answer is correct
        "positives": [4],
        "near": [2, 0, 3, 1],
        "sure": [1, 3, 0, 2],
    }
    assert list(candidates_by_kind(six_queries(with_trace=False))) == ["positives", "near", "sure"]


def test_kinds_take_turns_and_no_query_is_shown_twice() -> None:
    chosen = choose_mistakes(six_queries(), 10)
    assert [(m.kind.key, m.query) for m in chosen] == [
        ("lifted", 0),
        ("dropped", 1),
        ("unsupported", 3),
        ("positives", 4),
        ("near", 2),
    ]
    assert chosen[0].other == 7, "beside the video that TRACE has overtaken"
    assert chosen[2].other == 8, "beside the first answer"
    assert [m.query for m in choose_mistakes(six_queries(), 2)] == [0, 1]
    plain = choose_mistakes(six_queries(with_trace=False), 3)
    assert [(m.kind.key, m.query) for m in plain] == [("positives", 4), ("near", 2), ("sure", 1)]


def test_the_page_names_every_mistake_without_moments_too(planted: Subject, tmp_path: Path) -> None:
    """In the planted split, TRACE puts every query right that the base has wrong."""
    written = write_mistakes(planted, 4, tmp_path / "deep" / "page.html", flags=["--split", "<odd>"])
    assert [m.kind.key for m in written.mistakes] == ["lifted"] * 4
    assert (written.wrong, written.queries) == (0, 6)
    page = written.page.read_text("utf-8")
    assert "rank 2 → 1 with TRACE" in page
    words = f"prvr explain {planted.run.path} --split &#x27;&lt;odd&gt;&#x27;"
    assert f"{words} --errors 4" in page
    assert page.count(f"More: <code>{words} --query ") == 4, "on the same split"
    assert page.count("<article") == 4
    assert page.count("<svg") == 8
    assert "annotated moment (" not in page, "moments are not known here"
    with pytest.raises(RunError, match="between 1 and 100"):
        write_mistakes(planted, 0, tmp_path / "page.html")
