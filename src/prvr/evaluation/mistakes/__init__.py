"""The most instructive mistakes of a run on one page."""

from prvr.evaluation.mistakes.choose import KINDS, Mistake, MistakeKind, RankedQueries, choose_mistakes, rank_queries
from prvr.evaluation.mistakes.write import MOST_MISTAKES, WrittenMistakes, write_mistakes

__all__ = [
    "KINDS",
    "MOST_MISTAKES",
    "Mistake",
    "MistakeKind",
    "RankedQueries",
    "WrittenMistakes",
    "choose_mistakes",
    "rank_queries",
    "write_mistakes",
]
