"""Times that may be anything become a steady sequence of samples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prvr.media.sampling import PresentationClock, Sampler

times = st.lists(st.one_of(st.none(), st.floats(-10, 1e12)), max_size=60)


@given(times, st.one_of(st.none(), st.floats(0.1, 1000)))
def test_a_clock_never_runs_backwards_nor_away(raw: list[float | None], duration: float | None) -> None:
    clock = PresentationClock(gap=0.04, duration=duration)
    shown = [clock(t) for t in raw]
    assert shown == sorted(shown)
    assert all(math.isfinite(t) and t >= 0 for t in shown)
    bound = (duration + 1 if duration is not None else 3600.0 * (len(raw) + 1)) + 0.08 * (len(raw) + 1)
    assert all(t <= bound for t in shown)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=40), st.floats(0.1, 30), st.floats(0.01, 3))
def test_samples_are_steady_and_show_what_is_on_screen(gaps: list[float], rate: float, hold: float) -> None:
    starts = [sum(gaps[:i]) for i in range(len(gaps))]
    sampler = Sampler[int](rate)
    found = [s for i, t in enumerate(starts) for s in sampler.push(t, i)] + list(sampler.finish(hold))
    assert [t for t, _ in found] == pytest.approx([starts[0] + k / rate for k in range(len(found))])
    for time, frame in found:
        assert starts[frame] <= time + 1e-3  # it has begun
        assert frame + 1 == len(starts) or starts[frame + 1] >= time - 1e-3  # the next has not
    assert found  # at least the first frame
    assert len(found) >= int((starts[-1] + hold - starts[0]) * rate - 1e-3)


def test_a_new_time_line_goes_on_where_the_old_one_stopped() -> None:
    clock = PresentationClock(gap=1.0, duration=100.0)
    assert [clock(t) for t in (50.0, 51.0, 3.0, 4.0)] == [50.0, 51.0, 52.0, 53.0]


@pytest.mark.parametrize("rate", [0, -1, float("nan"), 1e9])
def test_a_rate_must_make_sense(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        Sampler[int](rate)
