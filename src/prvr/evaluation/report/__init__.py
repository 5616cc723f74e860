"""The paper's evidence for a run of one's own: one page, its tables and figures, and every query's numbers."""

from prvr.evaluation.report.build import SECTIONS, Extras, write_report
from prvr.evaluation.report.comparison import KEYS as COMPARISON_SECTIONS
from prvr.evaluation.report.comparison import contest, write_comparison
from prvr.evaluation.report.content import Section, Table, Verdict
from prvr.evaluation.report.files import Written

__all__ = [
    "COMPARISON_SECTIONS",
    "SECTIONS",
    "Extras",
    "Section",
    "Table",
    "Verdict",
    "Written",
    "contest",
    "write_comparison",
    "write_report",
]
