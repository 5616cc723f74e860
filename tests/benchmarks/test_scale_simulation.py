"""The plan for larger libraries follows from what was measured, and its simulation from what can be computed."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import scale_simulation as scale

MEASURED = scale.Measured(
    row_bytes=20_000.0,
    index_bytes=50.0,
    stretches=10,
    length=1000.0,
    lists=1000,
    probes=100,
    look=1e-8,
    rest=0.02,
    spread=0.2,
    assign=1e-7,
)
ASSUMED = scale.Assumed(growth=0.5)


def test_a_plan_is_the_sum_of_its_parts() -> None:
    found = scale.plan(10**5, MEASURED, ASSUMED)  # the size that was measured: 10⁶ stretches in 1,000 lists
    assert (found.lists, found.probes, found.parts) == (1000, 100, 1)
    assert found.bytes == 10**5 * (20_000 + 10 * 50)
    assert found.service == pytest.approx(0.02 + 1e-8 * (100 * 1000 + 1000))
    assert found.index_hours == pytest.approx(10**6 * 1000 * 1e-7 / 3600)
    assert found.searchers == 1  # 100 queries of 21 ms keep 2.1 of 64 cores busy


def test_lists_keep_their_length_and_an_index_past_memory_is_split() -> None:
    found = scale.plan(10**9, MEASURED, ASSUMED)
    assert found.lists == 10**7
    assert found.probes == 10**4  # 10,000 times the lists, to the power 0.5: 100 times the lists to look at
    assert found.index_hours == pytest.approx(10**10 * 4096 * 1e-7 / 3600)
    assert found.index_bytes == 10**10 * 50
    assert found.parts == math.ceil(500 / (512 * 0.7))
    assert scale.plan(10**9, MEASURED, replace(ASSUMED, growth=1.0)).probes == 10**6


def test_waiting_is_as_long_as_erlang_says() -> None:
    """Exponential times on c cores: the mean wait is C(c, a) / (c·μ − λ) with Erlang's C."""
    cores, busy, rng = 4, 0.8, np.random.default_rng(0)
    offered = cores * busy
    arrivals, taken = rng.exponential(1 / offered, 400_000).cumsum(), rng.exponential(1.0, 400_000)
    tail = offered**cores / math.factorial(cores) / (1 - busy)
    all_busy = tail / (sum(offered**n / math.factorial(n) for n in range(cores)) + tail)
    waited = scale.answer_times(arrivals, taken, cores) - taken
    assert waited.mean() == pytest.approx(all_busy / (cores - offered), rel=0.05)


def test_waiting_for_the_slowest_of_many_takes_longer() -> None:
    """The median of the largest of n is the quantile 2^(−1/n) of one: known for what is drawn here."""
    idle = replace(ASSUMED, queries=0.001)
    for parts in (1, 50):
        p = replace(scale.plan(10**6, MEASURED, idle), parts=parts, searchers=parts, service=0.1)
        draws = 0.1 * np.exp(0.2 * np.random.default_rng(1).standard_normal(400_000))
        expected = np.quantile(draws, 0.5 ** (1 / parts))
        assert np.median(scale.simulate(p, MEASURED, idle, 4000)) == pytest.approx(expected, rel=0.02)


def test_a_measurement_is_read() -> None:
    found = {
        "videos": 1000,
        "stretches": 10,
        "partitions": 100,
        "probes": 10,
        "megabytes": {"rows": 20.0, "index": 0.5},
        "build": 50.0,
        "processor": [30.0] * 5,
        "wider": {"10": 5.0, "20": 6.0, "40": 8.0},  # 0.1 ms for each list of 100 stretches
    }
    m = scale.Measured.of(found)
    assert (m.row_bytes, m.index_bytes, m.length, m.spread) == (20_000, 50, 100, 0.0)
    assert m.look == pytest.approx(1e-6)
    assert m.rest == pytest.approx(0.030 - 1e-6 * (1000 + 100))
    assert m.assign == pytest.approx(50 / 10_000 / 100)
