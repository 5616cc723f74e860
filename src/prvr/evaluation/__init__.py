"""How good is a scoring: ranks and recalls, significance, tables, records on disk, and the correction worth showing."""

from prvr.evaluation.corrections import Correction, find_correction
from prvr.evaluation.figures import EvidenceCurves, correction_figure, save_figure
from prvr.evaluation.records import EvaluationProtocol, EvaluationRecord, load_record, save_record
from prvr.evaluation.significance import Comparison, Estimate, compare, compare_ranks
from prvr.evaluation.tables import RecallSummary, RecallTable, recall_table, summarise
from prvr.evaluation.terminal import terminal_chart
from prvr.scoring.ranks import Positives, Recall, coverage, ranks, recalls

__all__ = [
    "Comparison",
    "Correction",
    "Estimate",
    "EvaluationProtocol",
    "EvaluationRecord",
    "EvidenceCurves",
    "Positives",
    "Recall",
    "RecallSummary",
    "RecallTable",
    "compare",
    "compare_ranks",
    "correction_figure",
    "coverage",
    "find_correction",
    "load_record",
    "ranks",
    "recall_table",
    "recalls",
    "save_figure",
    "save_record",
    "summarise",
    "terminal_chart",
]
