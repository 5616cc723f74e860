"""Recorded searches on a GPU find what searches without a recording find."""

from __future__ import annotations

import pytest
import torch

from prvr.bench import random_gallery, random_queries
from prvr.scoring import top_k

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("storage", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_answers_each_time(storage: str, count: int) -> None:
    cuda = torch.device("cuda")
    gallery = random_gallery(500, 6, cuda, storage, distinct=500)  # type: ignore[arg-type]
    for number in range(4):
        torch.manual_seed(number)
        queries = random_queries(count, cuda)
        found = top_k(queries, gallery, k=20)
        expected = top_k(queries, gallery, k=20, engine="triton" if storage != "fp32" else "torch")
        torch.testing.assert_close(found.scores, expected.scores, atol=1e-5, rtol=0)
        assert torch.equal(found.indices, expected.indices)
    assert gallery.graphs.made[count, 20] is not None


def test_a_query_that_is_not_finite_is_refused_every_time() -> None:
    cuda = torch.device("cuda")
    gallery = random_gallery(200, 6, cuda, "bf16", distinct=200)
    for _ in range(3):
        top_k(random_queries(1, cuda), gallery, k=5)
    with pytest.raises(ValueError, match="NaN"):
        top_k(torch.full((1, gallery.width), torch.nan, device=cuda), gallery, k=5)
    assert torch.isfinite(top_k(random_queries(1, cuda), gallery, k=5).scores).all()
