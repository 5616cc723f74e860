"""What HLFormer and Holmes, which have no registers, are tested for alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("method", ["hlformer", "holmes"])
def test_tokens_and_scores_are_the_authors(method: str, authors: Callable[[str], Any]) -> None:
    fixture = authors(method)
    model, case = fixture.model(), fixture.case
    queries, videos = fixture.encode(model)
    case.check("out.query", queries)
    case.check("out.clip", videos.clips)
    case.check("out.frame", videos.frames)
    case.check("out.fused", model.base_score(queries, videos))
    assert videos.registers is None
