"""Lengths of time as people write them."""

from __future__ import annotations

import pytest

from prvr.times import NotADuration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("90", 90), ("1.5", 1.5), (".5", 0.5), ("90s", 90), ("90 s", 90), ("1m", 60), ("2min", 120),
        ("1m30s", 90), ("1h", 3600), ("1H30M", 5400), ("1h5s", 3605), ("0.5h", 1800), ("1:30", 90), ("90:00", 5400),
        ("1:30:00", 5400), ("00:00:02.5", 2.5),
    ],
)  # fmt: skip
def test_the_usual_forms_are_understood(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "-5", "1,5", "1:75", "1:75:00", "1:2:3:4", "30s1m", "nan", "inf", "1e5", "h", "5d", "9" * 30],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(NotADuration, match=r"length of time|too long"):
        parse_duration(text)
