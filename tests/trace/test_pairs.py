"""Aligned pairs see what the full evidence has on its diagonal."""

from __future__ import annotations

import pytest
import torch

from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig, factor_evidence
from prvr.trace import operator as op


@torch.no_grad()
@pytest.mark.parametrize("temperature", [0.07, 0.007])  # the lower one leaves float32
def test_pairs_are_the_diagonal_of_the_evidence(temperature: float) -> None:
    mask = torch.arange(7) < torch.tensor([7, 3, 5, 1])[:, None]
    videos = VideoTokens(torch.randn(4, 7, 8), mask, torch.randn(4, 2, 8), torch.randn(4, 3, 8))
    queries, trace, rows = torch.randn(4, 8), Trace(8, TraceConfig(temperature=temperature)), torch.arange(4)
    full = trace.evidence(queries, videos)
    found = factor_evidence(op.projected_unit(queries, trace.projections["query"]), trace.factors(videos), trace.config)
    for name in ("direct", "routed"):
        expected = getattr(full, name)[rows, rows].nan_to_num(-torch.inf)
        assert torch.allclose(getattr(found, name), expected, atol=1e-6), name
    for name in ("support", "expected_support"):
        assert torch.allclose(getattr(found, name)[mask], getattr(full, name)[rows, rows][mask], atol=1e-6), name
    assert torch.allclose(found.score.amax(1), full.score[rows, rows], atol=1e-6)
    assert torch.allclose(found.activation, full.activation[rows, rows], atol=1e-6)
    assert torch.equal(found.routed_peak, full.peak[rows, rows])
    assert torch.allclose(found.unsupported_gap, full.unsupported_gap[rows, rows], atol=1e-6)
