"""The paper's tables and figures for your own run: one page, its tables and figures as files, every query's numbers."""

from prvr.evaluation.report.ablation import retrained_ranks
from prvr.evaluation.report.build import REPORT_SECTIONS, ReportExtras, write_report
from prvr.evaluation.report.comparison import COMPARISON_SECTIONS, pair_runs, write_comparison
from prvr.evaluation.report.content import ReportSection, ReportTable, Verdict
from prvr.evaluation.report.files import WrittenReport
from prvr.evaluation.report.finer_sections import FINER_SECTIONS

__all__ = [
    "COMPARISON_SECTIONS",
    "FINER_SECTIONS",
    "REPORT_SECTIONS",
    "ReportExtras",
    "ReportSection",
    "ReportTable",
    "Verdict",
    "WrittenReport",
    "pair_runs",
    "retrained_ranks",
    "write_comparison",
    "write_report",
]
