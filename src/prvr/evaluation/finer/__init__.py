"""Finer measures of an evaluation: groups of queries, several correct videos, moments in the corpus, and hubs."""

from prvr.evaluation.finer.answers import Answers
from prvr.evaluation.finer.corpus_moments import MomentSearch, search_moments
from prvr.evaluation.finer.groups import RATIO_EDGES, kind_groups, moment_ratios, query_kinds, ratio_bins
from prvr.evaluation.finer.hubs import Hub, Hubness, skewness
from prvr.evaluation.finer.measure import Finer, remove_finer, save_finer, save_moments
from prvr.evaluation.finer.relevance import Relevance, average_precision, ndcg

__all__ = [
    "RATIO_EDGES",
    "Answers",
    "Finer",
    "Hub",
    "Hubness",
    "MomentSearch",
    "Relevance",
    "average_precision",
    "kind_groups",
    "moment_ratios",
    "ndcg",
    "query_kinds",
    "ratio_bins",
    "remove_finer",
    "save_finer",
    "save_moments",
    "search_moments",
    "skewness",
]
