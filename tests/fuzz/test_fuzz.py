"""No input makes a parser fail in a way it does not declare: nearly-right inputs, and all that once did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutation import mutate
from tests.fuzz.running import fault, keep, known_seeds, numbered_input, scratch
from tests.fuzz.targets import TARGETS, Opened, open_target

EXAMPLES = 40


@pytest.fixture(scope="module", params=list(TARGETS))
def target(request: pytest.FixtureRequest) -> Iterator[Opened]:
    with scratch() as folder:
        yield open_target(request.param, folder)


def test_right_documents_are_read(target: Opened) -> None:
    for document in target.target.documents:
        target.read(document)


def test_inputs_that_once_failed(target: Opened) -> None:
    for path in known_seeds(target.target.name):
        assert fault(target, path.read_bytes()) is None, path


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)
@given(st.randoms(use_true_random=False))
def test_nearly_right_documents_fail_as_declared(target: Opened, rng: Random) -> None:
    assert fault(target, mutate(rng, target.target.documents)) is None


def test_inputs_follow_from_their_numbers() -> None:
    documents = [b'{"a": [1, 2]}']
    made = [numbered_input("x", documents, 0, number) for number in range(50)]
    assert made == [numbered_input("x", documents, 0, number) for number in range(50)]
    assert len(set(made)) > 30


def test_a_fault_is_found_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes) -> None:
        json.loads(data)

    monkeypatch.setattr("tests.fuzz.running.SEEDS", tmp_path)
    broken = Opened(TARGETS["captions"], read)  # which declares another error
    found = fault(broken, b"{")
    assert found is not None
    assert "JSONDecodeError" in found.kind
    assert keep("captions", b"{").read_bytes() == b"{"
