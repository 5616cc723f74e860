"""Batches of an epoch, and prefetching them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prvr.data import epoch_batches, prefetch


@settings(deadline=None)
@given(videos=st.integers(2, 60), size=st.integers(4, 16), world=st.integers(1, 4), epoch=st.integers(0, 3))
def test_an_epoch_uses_every_video_once_but_for_a_last_batch_too_small(
    videos: int, size: int, world: int, epoch: int
) -> None:
    ranks = [epoch_batches(videos, size, seed=1, epoch=epoch, rank=rank, world=world) for rank in range(world)]
    used = torch.cat([rows for batches in ranks for rows in batches]) if ranks[0] else torch.tensor([])
    left = videos % size if videos % size < max(2, world) else 0
    assert len(used.unique()) == len(used) == videos - left
    assert len({len(batches) for batches in ranks}) == 1
    assert all(len(rows) for batches in ranks for rows in batches)


def test_ranks_share_one_global_batch() -> None:
    whole = epoch_batches(50, 8, seed=3, epoch=2)
    parts = [epoch_batches(50, 8, seed=3, epoch=2, rank=rank, world=2) for rank in range(2)]
    for step, rows in enumerate(whole):
        assert torch.equal(rows[0::2], parts[0][step])
        assert torch.equal(rows[1::2], parts[1][step])


def test_the_order_follows_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        torch.manual_seed(torch.seed() % 1000)
        return torch.cat(epoch_batches(64, 8, seed=seed, epoch=epoch)).tolist()

    assert order(0, 5) == order(0, 5)
    assert order(0, 5) != order(0, 6)
    assert order(0, 5) != order(1, 5)


def test_a_batch_too_small_for_negatives_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        epoch_batches(10, 1, seed=0, epoch=0)


def test_prefetching_keeps_the_order() -> None:
    assert list(prefetch(map(str, range(50)), depth=3)) == [str(i) for i in range(50)]


def test_an_error_arrives_in_its_turn() -> None:
    def batches() -> Iterator[int]:
        yield 1
        raise KeyError("lost")

    ready = prefetch(batches())
    assert next(ready) == 1
    with pytest.raises(KeyError, match="lost"):
        next(ready)


def test_closing_stops_the_thread() -> None:
    ready = prefetch(iter(int, 1), depth=1)  # endless
    next(ready)
    assert any(thread.name == "prefetch" for thread in threading.enumerate())
    ready.close()
    assert not any(thread.name == "prefetch" for thread in threading.enumerate())


def test_work_runs_ahead_but_not_too_far() -> None:
    made: list[int] = []
    ahead = threading.Event()

    def batches() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                ahead.set()
            yield number

    ready = prefetch(batches(), depth=2)
    next(ready)
    assert ahead.wait(60)
    assert len(made) <= 5
    ready.close()
