"""A pool scores in pieces what one pass scores whole, on any thread and after a fork."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from prvr.scoring import Gallery, OneCoreThreads, ScoringPool, score_parts
from prvr.scoring import pool as module

from .test_evidence import WIDTH, Corpus, corpus_tokens, trained


@pytest.fixture
def gallery() -> Gallery:
    return Gallery.of_tokens(Corpus(), trained(), corpus_tokens(), page=16)  # type: ignore[arg-type]


@pytest.fixture(params=[1, 2])
def cores(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def queries(count: int = 3) -> torch.Tensor:
    torch.manual_seed(5)
    return torch.randn(count, WIDTH)


def test_pieces_of_galleries_join_to_their_scores(gallery: Gallery, cores: int) -> None:
    parts = [gallery, gallery[2:5]]
    for part, found in zip(parts, ScoringPool(smallest_piece=2).score(queries(), parts), strict=True):
        expected = score_parts(queries(), part)
        torch.testing.assert_close(found.base, expected.base, atol=1e-6, rtol=0)
        torch.testing.assert_close(found.trace, expected.trace, atol=1e-6, rtol=0)


def test_chosen_rows_are_scored_in_their_order(gallery: Gallery, cores: int) -> None:
    rows = np.array([4, 0, 6, 3])
    (found,) = ScoringPool(pages_copied=2).score_rows(queries(), [(gallery, rows)])
    expected = score_parts(queries(), gallery)
    assert expected.trace is not None
    torch.testing.assert_close(found.base, expected.base[:, rows], atol=1e-6, rtol=0)
    torch.testing.assert_close(found.trace, expected.trace[:, rows], atol=1e-6, rtol=0)


def test_each_thread_of_a_pool_has_one_core(cores: int) -> None:
    """Also after its first product, for which torch asks how many cores there are."""
    with OneCoreThreads("test").executor(2) as threads:
        large = torch.ones(256, 256)
        assert [*threads.map(lambda _: ((large @ large).sum(), torch.get_num_threads())[1], range(8))] == [1] * 8
        assert torch.get_num_threads() == cores
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == cores


def test_threads_are_started_once_however_many_ask(cores: int) -> None:
    """Otherwise one would start threads while torch's number of cores is that of the other's threads."""
    for _ in range(5):
        shared, together = OneCoreThreads("test"), threading.Barrier(6)

        def start(shared: OneCoreThreads = shared, together: threading.Barrier = together) -> ThreadPoolExecutor:
            together.wait()
            return shared.executor(2)

        with ThreadPoolExecutor(6) as asking:
            assert len({future.result() for future in [asking.submit(start) for _ in range(6)]}) == 1
        shared.close()
        with ThreadPoolExecutor(1) as later:
            assert later.submit(torch.get_num_threads).result() == cores


def test_threads_of_two_kinds_are_not_started_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one would take the number of cores that the other has just set for the usual one."""
    starting: list[str] = []

    def slowly(count: int, name: str) -> ThreadPoolExecutor:
        starting.append(name)
        time.sleep(0.1)
        assert starting == [name]
        starting.clear()
        return ThreadPoolExecutor(count, name)

    monkeypatch.setattr(module, "_one_core_threads", slowly)
    with ThreadPoolExecutor(4) as asking:
        for started in [asking.submit(OneCoreThreads(str(number)).executor, 2) for number in range(4)]:
            started.result().shutdown()


def test_several_threads_may_share_a_pool(gallery: Gallery, cores: int) -> None:
    shared, asked = ScoringPool(), queries()
    expected = score_parts(asked, gallery).base
    with ThreadPoolExecutor(4) as threads:
        for (found,) in threads.map(lambda _: shared.score(asked, [gallery]), range(16)):
            torch.testing.assert_close(found.base, expected, atol=1e-6, rtol=0)


def test_a_closed_pool_has_no_threads_and_starts_new_ones_when_used(cores: int) -> None:
    def ours() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("prvr-score")} - before

    before = {thread for thread in threading.enumerate() if thread.name.startswith("prvr-score")}
    shared = ScoringPool()
    assert shared.map(lambda number: number + 1, range(4)) == [1, 2, 3, 4]
    assert len(ours()) == (cores if cores > 1 else 0)
    shared.close()
    assert not ours()
    assert shared.map(lambda number: number + 1, range(4)) == [1, 2, 3, 4]
    shared.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own(cores: int) -> None:
    shared = ScoringPool()
    assert shared.map(abs, [-1, -2]) == [1, 2]  # the parent's threads are running
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=lambda: answers.put(shared.map(abs, [-3, -4])))
    with module._starting:  # as if another thread of the parent were starting some
        child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0
    assert answers.get() == [3, 4]
