"""TRACE: verify the strongest local response before trusting it."""

from prvr.trace.anchors import KINDS, with_anchors
from prvr.trace.curves import Peaked, temporal_iou
from prvr.trace.explain import Explanation, explain
from prvr.trace.module import Trace, TraceConfig, TraceFactors, trace_evidence, trace_factors, trace_score
from prvr.trace.operator import certainty, fuse
from prvr.trace.pairs import PairEvidence, PairProducts, aligned_evidence, factor_evidence, pair_evidence
from prvr.trace.variants import (
    ABLATIONS,
    BASE,
    CORRUPTIONS,
    TRACE,
    VARIANTS,
    VariantFactors,
    route_name,
    variant_factors,
    variant_parts,
)

__all__ = [
    "ABLATIONS",
    "BASE",
    "CORRUPTIONS",
    "KINDS",
    "TRACE",
    "VARIANTS",
    "Explanation",
    "PairEvidence",
    "PairProducts",
    "Peaked",
    "Trace",
    "TraceConfig",
    "TraceFactors",
    "VariantFactors",
    "aligned_evidence",
    "certainty",
    "explain",
    "factor_evidence",
    "fuse",
    "pair_evidence",
    "route_name",
    "temporal_iou",
    "trace_evidence",
    "trace_factors",
    "trace_score",
    "variant_factors",
    "variant_parts",
    "with_anchors",
]
