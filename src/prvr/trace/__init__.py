"""TRACE: verify the strongest local response before trusting it."""

from prvr.trace.explain import Explanation, explain
from prvr.trace.module import Trace, TraceConfig, TraceFactors, trace_evidence, trace_factors, trace_score
from prvr.trace.operator import fuse

__all__ = [
    "Explanation",
    "Trace",
    "TraceConfig",
    "TraceFactors",
    "explain",
    "fuse",
    "trace_evidence",
    "trace_factors",
    "trace_score",
]
