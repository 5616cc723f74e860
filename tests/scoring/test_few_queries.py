"""Products for one or two queries."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prvr.scoring import has_simsimd
from prvr.scoring.few_queries import few_query_dots

pytestmark = pytest.mark.skipif(not has_simsimd(), reason="needs SimSIMD")


@pytest.mark.parametrize("rows", [10, 4_000], ids=["few rows, one thread", "many rows"])
def test_products_leave_the_number_of_torchs_threads_as_it_was(rows: int) -> None:
    usual = torch.get_num_threads()
    draw = np.random.default_rng(0)
    stored, query = (draw.standard_normal((count, 128)).astype(np.float32) for count in (rows, 1))
    try:
        for threads in (2, 3):
            torch.set_num_threads(threads)
            found = few_query_dots(stored, query, "f32", 1)
            assert torch.get_num_threads() == threads
            np.testing.assert_allclose(found, query @ stored.T, atol=1e-4)
    finally:
        torch.set_num_threads(usual)
