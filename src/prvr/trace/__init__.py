"""TRACE checks a video's strongest local response against its global registers before trusting it.

- ``Trace``: the module with its parameters; ``TraceConfig`` holds its settings.
- Evidence: ``trace_evidence`` for all pairs, ``pair_evidence`` for chosen pairs, ``explain_pair`` for one pair.
- Variants: ``VARIANTS``, ``ABLATIONS`` and ``CORRUPTIONS`` change or leave out one part, for comparisons.
"""

from typing import TYPE_CHECKING

from prvr.doors import lazy_door

if TYPE_CHECKING:
    from prvr.trace import operator
    from prvr.trace.anchors import ANCHOR_KINDS, UnknownAnchors, with_anchors
    from prvr.trace.config import TraceConfig
    from prvr.trace.curves import Peaked, temporal_iou
    from prvr.trace.explanation import Explanation, explain_pair
    from prvr.trace.module import Trace, TraceFactors, trace_evidence, trace_factors, trace_score
    from prvr.trace.numpy_evidence import PagedEvidence, PagedProducts, expected_paged_support, paged_evidence
    from prvr.trace.operator import certainty, fuse
    from prvr.trace.pairs import PairEvidence, PairProducts, aligned_evidence, factor_evidence, pair_evidence
    from prvr.trace.spread import RegisterSpread
    from prvr.trace.variants import (
        ABLATIONS,
        BASE_VARIANT,
        CORRUPTIONS,
        READINGS,
        TRACE_VARIANT,
        VARIANTS,
        VariantFactors,
        route_name,
        variant_factors,
        variant_parts,
    )
    from prvr.trace.verdicts import Share, Verdict, VerdictScale, why_this_one
    from prvr.trace.witness import NO_FRAME, Witness, WitnessConfig, WordEvidence, hub_offset, uniform_score
else:
    __getattr__, __dir__ = lazy_door(__name__)

__all__ = [
    "ABLATIONS",
    "ANCHOR_KINDS",
    "BASE_VARIANT",
    "CORRUPTIONS",
    "NO_FRAME",
    "READINGS",
    "TRACE_VARIANT",
    "VARIANTS",
    "Explanation",
    "PagedEvidence",
    "PagedProducts",
    "PairEvidence",
    "PairProducts",
    "Peaked",
    "RegisterSpread",
    "Share",
    "Trace",
    "TraceConfig",
    "TraceFactors",
    "UnknownAnchors",
    "VariantFactors",
    "Verdict",
    "VerdictScale",
    "Witness",
    "WitnessConfig",
    "WordEvidence",
    "aligned_evidence",
    "certainty",
    "expected_paged_support",
    "explain_pair",
    "factor_evidence",
    "fuse",
    "hub_offset",
    "operator",
    "paged_evidence",
    "pair_evidence",
    "route_name",
    "temporal_iou",
    "trace_evidence",
    "trace_factors",
    "trace_score",
    "uniform_score",
    "variant_factors",
    "variant_parts",
    "why_this_one",
    "with_anchors",
]
