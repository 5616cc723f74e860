"""The numbers of TRACE that a person chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TraceConfig:
    """The paper's unified configuration, the same on all three datasets."""

    fusion_weight: float = 0.03
    """λ: weight of the evidence score in the final one"""
    routing_strength: float = 0.3
    """γ: weight of routed support next to direct evidence"""
    soft_weight: float = 0.2
    """η: weight of the soft route"""
    temperature: float = 0.07
    """τ_r: temperature of register activation and routing"""
    gate: bool = False
    """not in the paper: scale each pair's evidence score by 1 − H(π)/log R, how certain its register activation is"""
    anchors: Literal["registers", "hybrid"] = "registers"
    """hybrid, not in the paper: four anchors pooled over time join the registers (where there are none, global-4)"""
    init: Literal["identity", "random"] = "identity"
    """start of the four projections: the backbone's own space, or the usual random start"""
