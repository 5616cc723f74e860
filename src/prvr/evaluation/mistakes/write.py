"""Writes the page of mistakes, and a table of them beside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prvr.data import DataError
from prvr.evaluation.mistakes.choose import Mistake, RankedQueries, choose_mistakes, rank_queries
from prvr.evaluation.mistakes.page import ShownMistake, mistakes_page
from prvr.evaluation.pair_account import PairAccount, pair_account
from prvr.evaluation.records import write_columns
from prvr.evaluation.subject import Subject
from prvr.files import write_whole
from prvr.training import RunError

MOST_MISTAKES = 100  # on one page


@dataclass(frozen=True)
class WrittenMistakes:
    """A page of mistakes on disk."""

    page: Path
    table: Path
    mistakes: list[Mistake]
    wrong: int  # queries of the split whose first answer is wrong
    queries: int


def write_mistakes(subject: Subject, count: int, page: Path, *, flags: Sequence[str] = ()) -> WrittenMistakes:
    """Choose at most ``count`` mistakes by rule and write them as a page, with a .csv of the same name beside it.

    ``flags`` are those of ``prvr explain`` that say which data, split, weights and labels the subject has.

    Raises:
        RunError: ``count`` is not between 1 and ``MOST_MISTAKES``.
    """
    if not 1 <= count <= MOST_MISTAKES:
        raise RunError(f"--errors {count}: choose between 1 and {MOST_MISTAKES} mistakes")
    found = rank_queries(subject)
    mistakes = choose_mistakes(found, count)
    shown = [
        ShownMistake(chosen, *(_account(subject, chosen.query, video) for video in (chosen.truth, chosen.other)))
        for chosen in mistakes
    ]
    method = subject.config.method + (" + TRACE" if subject.with_trace else "")
    explain = ["prvr", "explain", str(subject.run.path), *flags]
    about = {
        "run": str(subject.run.path),
        "data": subject.ranked,
        "weights": f"{subject.weights}: {subject.selection}",
        "made by": shlex.join([*explain, "--errors", str(count)]),
    }
    title = f"Mistakes of {method} on {subject.dataset.collection}"
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, mistakes_page(title, about, subject.dataset, found, shown, explain))
    table = page.with_suffix(".csv")
    _write_table(subject, found, mistakes, table)
    return WrittenMistakes(page, table, mistakes, int(found.wrong.sum()), len(found.wrong))


def _account(subject: Subject, query: int, video: int) -> PairAccount | None:
    """The evidence of a pair; None for a method without curves."""
    try:
        return pair_account(subject, query, video, words=False)
    except DataError:
        return None


def _write_table(subject: Subject, found: RankedQueries, mistakes: list[Mistake], path: Path) -> None:
    data, rows = subject.dataset, [mistake.query for mistake in mistakes]
    gaps = {}
    if found.gap is not None and found.truth_gap is not None:
        gaps = {"first_gap": found.gap[rows].tolist(), "truth_gap": found.truth_gap[rows].tolist()}
    write_columns(
        path,
        {
            "kind": [mistake.kind.key for mistake in mistakes],
            "query_id": [data.captions[row].id for row in rows],
            "sentence": [data.captions[row].sentence for row in rows],
            "video_id": [data.video_ids[mistake.truth] for mistake in mistakes],
            "base_rank": found.base_ranks[rows].tolist(),
            "final_rank": found.final_ranks[rows].tolist(),
            "best_correct_rank": found.best_correct[rows].tolist(),
            "first_answer": [data.video_ids[row] for row in found.first[rows].tolist()],
            "lead": found.lead[rows].tolist(),
            "shown_beside": [data.video_ids[mistake.other] for mistake in mistakes],
            **gaps,
        },
    )
