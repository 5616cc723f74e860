"""Measures scorings: ranks and recalls, significance, tables, records, studies and reports of a run."""

from prvr.evaluation.corrections import Correction, find_correction
from prvr.evaluation.evaluate import Outcome, backbone_ranks, evaluate_run, explained_correction
from prvr.evaluation.figures import (
    EvidenceCurves,
    blank_figure,
    correction_figure,
    cosine_figure,
    evidence_figure,
    save_figure,
)
from prvr.evaluation.film_strip import Still
from prvr.evaluation.findings import Study
from prvr.evaluation.goldens import Golden, read_golden, repository_goldens
from prvr.evaluation.pair_account import PairAccount, find_query, find_video, pair_account
from prvr.evaluation.published import CLIP_CAVEAT, PUBLISHED_CAVEAT, published_caveat, published_recall
from prvr.evaluation.records import EvaluationProtocol, EvaluationRecord, RecordError, load_record, save_record
from prvr.evaluation.report import (
    COMPARISON_SECTIONS,
    REPORT_SECTIONS,
    ReportExtras,
    ReportSection,
    ReportTable,
    Verdict,
    WrittenReport,
    pair_runs,
    retrained_ranks,
    write_comparison,
    write_report,
)
from prvr.evaluation.significance import (
    Comparison,
    Estimate,
    RankPair,
    compare,
    compare_ranks,
    pooled_change,
    signed,
)
from prvr.evaluation.study import run_study
from prvr.evaluation.subject import Subject, describe_weights, open_subject
from prvr.evaluation.tables import RecallSummary, RecallTable, recall_table, summarise
from prvr.evaluation.terminal import terminal_chart
from prvr.evaluation.transfer import (
    PAPER_ANCHORS,
    PAPER_LAMBDAS,
    TRANSFER_LAMBDAS,
    Transfer,
    TransferSplit,
    encode_split,
    transfer_trace,
)
from prvr.evaluation.witness_study import WITNESS_ABLATIONS, WitnessExperiment, WitnessStudy
from prvr.evaluation.word_figure import word_figure
from prvr.evaluation.zoo import ZooRow, zoo_rows
from prvr.scoring import Positives, Recall, coverage, ranks, recalls

__all__ = [
    "CLIP_CAVEAT",
    "COMPARISON_SECTIONS",
    "PAPER_ANCHORS",
    "PAPER_LAMBDAS",
    "PUBLISHED_CAVEAT",
    "REPORT_SECTIONS",
    "TRANSFER_LAMBDAS",
    "WITNESS_ABLATIONS",
    "Comparison",
    "Correction",
    "Estimate",
    "EvaluationProtocol",
    "EvaluationRecord",
    "EvidenceCurves",
    "Golden",
    "Outcome",
    "PairAccount",
    "Positives",
    "RankPair",
    "Recall",
    "RecallSummary",
    "RecallTable",
    "RecordError",
    "ReportExtras",
    "ReportSection",
    "ReportTable",
    "Still",
    "Study",
    "Subject",
    "Transfer",
    "TransferSplit",
    "Verdict",
    "WitnessExperiment",
    "WitnessStudy",
    "WrittenReport",
    "ZooRow",
    "backbone_ranks",
    "blank_figure",
    "compare",
    "compare_ranks",
    "correction_figure",
    "cosine_figure",
    "coverage",
    "describe_weights",
    "encode_split",
    "evaluate_run",
    "evidence_figure",
    "explained_correction",
    "find_correction",
    "find_query",
    "find_video",
    "load_record",
    "open_subject",
    "pair_account",
    "pair_runs",
    "pooled_change",
    "published_caveat",
    "published_recall",
    "ranks",
    "read_golden",
    "recall_table",
    "recalls",
    "repository_goldens",
    "retrained_ranks",
    "run_study",
    "save_figure",
    "save_record",
    "signed",
    "summarise",
    "terminal_chart",
    "transfer_trace",
    "word_figure",
    "write_comparison",
    "write_report",
    "zoo_rows",
]
