"""Replicas that are late or silent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prvr.cluster import Shards
from prvr.library import Library
from tests.cluster.alike import requests, same_answers
from tests.cluster.made import QUERIES, open_made_library
from tests.cluster.standin import searcher, start_actors


@pytest.fixture
def library(made_folder: Path) -> Library:
    return open_made_library(made_folder)


def test_a_late_replica_is_not_waited_for(library: Library) -> None:
    """One of two is stopped: it neither answers nor fails. The other is asked soon, and answers for it."""
    actors = start_actors(library, 3, replicas=2)
    cluster = searcher(library, actors, patience=600.0)
    expected = library.search_many(requests(QUERIES))
    cluster.shards.answer_seconds.extend([0.01] * 30)  # answers have been quick
    actors[1][0].stopped = actors[2][1].stopped = True
    for _ in range(4):
        found = cluster.search_many(requests(QUERIES))
        same_answers(found, expected)
        assert not any(result.missing for result in found)
    assert (actors[1][0].answered, actors[2][1].answered) == (0, 0)
    assert cluster.shards.hedged == 2  # once each: a replica that owes an answer is asked last
    actors[1][0].stopped = False
    for _ in range(4):
        same_answers(cluster.search_many(requests(QUERIES)), expected)
    assert actors[1][0].answered > 0


def test_no_replica_answers_in_time(library: Library) -> None:
    actors = start_actors(library, 2, replicas=2)
    cluster = searcher(library, actors, patience=0.3)
    actors[1][0].stopped = actors[1][1].stopped = True
    for _ in range(2):
        (found,) = cluster.search_many(requests(QUERIES[:1]))
        assert found.missing is not None
        assert found.missing.shards == (1,)
    actors[1][0].stopped = actors[1][1].stopped = False
    assert cluster.search_many(requests(QUERIES[:1]))[0].missing is None


def test_late_is_what_takes_longer_than_recent_answers() -> None:
    shards = Shards(None, [], patience=10.0)
    assert shards.late_after == 1.0
    shards.answer_seconds.extend(np.linspace(0.1, 0.2, 100).tolist())
    assert shards.late_after == pytest.approx(0.195)
    shards.answer_seconds.extend([0.001] * 256)
    assert shards.late_after == 0.05  # the least
