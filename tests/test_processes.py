"""Work on several cores gives what one core gives, in order."""

from __future__ import annotations

import math

import pytest

from prvr.processes import map_in_processes


def test_results_come_in_order() -> None:
    numbers = list(range(40))
    assert list(map_in_processes(math.sqrt, numbers)) == [math.sqrt(n) for n in numbers]
    assert list(map_in_processes(math.sqrt, numbers, workers=2)) == [math.sqrt(n) for n in numbers]


def test_a_problem_of_one_item_is_raised() -> None:
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        list(map_in_processes(math.sqrt, [1.0, -1.0, 4.0], workers=2))
