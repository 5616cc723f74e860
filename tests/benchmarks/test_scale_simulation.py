"""The plan to many nodes follows from what was measured, and its simulation from what can be computed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import scale_simulation as scale

MEASURED = scale.Measured(
    bytes_per_frame=1000.0,
    index=0.01,
    scan=4e9,
    scan_batch=1e9,
    batch=32,
    spread=0.2,
    ask=np.array([0.002]),
    page=0.01,
    restart=5.0,
    commit=0.001,
    sections=2.0,
    head_bytes=1000.0,
)
ASSUMED = scale.Assumed()


def test_a_plan_is_the_sum_of_its_parts() -> None:
    found = scale.plan(10**6, MEASURED, ASSUMED)
    assert found.bytes == 10**6 * 300 * 1000
    assert found.shards == 1
    assert found.nodes == 2
    assert found.index_core_hours == pytest.approx(10**6 * 300 * 0.01 / 3600)
    assert found.scan == pytest.approx(3e11 / 200e9)  # memory, not cores, is the limit: 64 × 4 GB/s > 200 GB/s
    assert found.transfer == pytest.approx(4 * 2 * 10**6 / 1e9)  # 4 bytes for each section, 1 GB/s
    large = scale.plan(10**9, MEASURED, ASSUMED)
    assert large.bytes == 1000 * found.bytes
    assert large.shards == np.ceil(large.bytes / (512e9 * 0.8))


@pytest.mark.parametrize(("shards", "down", "replicas"), [(50, 0.01, 1), (50, 0.1, 2), (10, 0.3, 3)])
def test_partial_answers_are_as_many_as_the_closed_form_says(shards: int, down: float, replicas: int) -> None:
    _, partial = scale.simulate(0.1, shards, down, MEASURED, replace(ASSUMED, replicas=replicas), 4000)
    expected = scale.partial_share(shards, down, replicas)
    assert partial == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 4000))


def test_waiting_for_the_slowest_of_many_takes_longer() -> None:
    """The median of the largest of n is the quantile 2^(−1/n) of one: known for what is drawn here."""
    steady = replace(ASSUMED, stall=0.0)
    for shards in (1, 100):
        waited, _ = scale.simulate(0.1, shards, 0.0, MEASURED, steady, 4000)
        draws = 0.1 * np.exp(0.2 * np.random.default_rng(1).standard_normal(400_000))
        expected = np.quantile(draws, 0.5 ** (1 / shards)) + 0.002 + 0.01
        assert np.median(waited) == pytest.approx(expected, rel=0.02)


def test_stalls_show_where_there_are_many_shards() -> None:
    alone = replace(ASSUMED, hedge=0.0)
    few, many = (scale.simulate(0.01, shards, 0.0, MEASURED, alone, 2000)[0] for shards in (1, 1000))
    assert (few > 0.4).mean() == pytest.approx(0.001, abs=0.004)
    assert (many > 0.4).mean() == pytest.approx(1 - 0.999**1000, abs=0.05)


def test_a_replica_that_is_asked_too_takes_the_stalls_away() -> None:
    """Both must stall: p² of the shards instead of p. Without a replica nothing changes."""
    stalling = replace(ASSUMED, stall=0.02)
    waited, partial = scale.simulate(0.01, 500, 0.0, MEASURED, stalling, 4000)
    assert (waited > 0.4).mean() == pytest.approx(1 - (1 - 0.02**2) ** 500, abs=0.03)
    assert partial == 0
    late = scale.late_after(0.01, MEASURED, stalling)
    assert np.median(waited) == pytest.approx(late + 0.01 + 2 * 0.002 + 0.01, rel=0.15)
    single = replace(stalling, replicas=1)
    alone = scale.simulate(0.01, 500, 0.0, MEASURED, single, 500)[0]
    assert (alone > 0.4).mean() == pytest.approx(1 - 0.98**500, abs=0.03)


def test_a_measurement_is_read() -> None:
    found = {
        "storage": {"bytes": 1e9, "bytes_per_frame": 1100.0, "commit": 0.001, "head_bytes": 900.0},
        "indexing": {"decode": 0.01, "encode": 0.5, "finish": 0.001},
        "searching": {
            "one_core": [0.5] * 10,
            "one_core_batch": [4.0],
            "batch": 32,
            "page": 0.01,
            "sections_per_video": 2.0,
        },
        "cluster": None,
    }
    m = scale.Measured.of(found)
    assert (m.scan, m.scan_batch, m.spread) == (2e9, 0.25e9, 0.0)
    assert m.index == pytest.approx(0.011)  # the encoder of the plan is another, on GPUs
