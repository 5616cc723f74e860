"""The collapsed bootstrap and sign flip are the naive ones in distribution, and the counts are right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from prvr.evaluation.significance import (
    ClusterDraws,
    RankPair,
    bootstrap_sums,
    compare,
    compare_ranks,
    joint_changes,
    mean_rank_gain,
    pooled_change,
    sign_flip_sums,
)
from prvr.scoring import recalls

DRAWS = 20_000


def made_up_ranks(queries: int, shift: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Heavy-tailed ranks and a noisy change of them; a positive shift makes the second list better."""
    rng = np.random.default_rng(seed)
    before = np.exp(rng.uniform(0, 6, queries))
    after = before * np.exp(rng.normal(-shift, 0.3, queries))
    return tuple(torch.from_numpy(np.maximum(1, x).astype(np.int64)) for x in (before, after))  # type: ignore[return-value]


def differences(before: torch.Tensor, after: torch.Tensor) -> np.ndarray:
    met = lambda found: sum((found <= k).long() for k in (1, 5, 10, 100))  # noqa: E731
    return (met(after) - met(before)).numpy()


def test_differences_counted_by_hand() -> None:
    comparison = compare_ranks(torch.tensor([2, 1, 6, 400, 30]), torch.tensor([1, 3, 6, 90, 20]))
    # cut-offs met before: 3 4 2 0 1, after: 4 3 2 1 1; so +1 -1 0 +1 0 over five queries
    assert comparison.delta_sum_r == pytest.approx(20.0)
    assert comparison.delta == pytest.approx({1: 0.0, 5: 0.0, 10: 0.0, 100: 20.0})
    assert (comparison.rank_up, comparison.rank_down) == (3, 1)
    assert (comparison.wins, comparison.losses) == (2, 1)
    assert comparison.mean_gain == pytest.approx((1 - 2 + 0 + 310 + 10) / 5)
    assert comparison.median_gain == 1.0
    # Signs of three ones: sums 3, 1, -1, -3 with odds 1:3:3:1, so at least 1 half of the time.
    assert comparison.p == pytest.approx(0.5, abs=0.02)


def test_the_difference_is_that_of_the_recalls() -> None:
    before, after = made_up_ranks(700, 0.1)
    comparison = compare_ranks(before, after)
    assert comparison.delta_sum_r == pytest.approx(recalls(after).sum_r - recalls(before).sum_r)
    assert comparison.delta[10] == pytest.approx(recalls(after).r10 - recalls(before).r10)
    assert sum(comparison.delta.values()) == pytest.approx(comparison.delta_sum_r)
    assert comparison.low < comparison.delta_sum_r < comparison.high


def test_bootstrap_equals_naive_resampling_of_query_indices() -> None:
    found = differences(*made_up_ranks(300, 0.1))
    rng = np.random.default_rng(1)
    naive = found[rng.integers(0, len(found), (DRAWS, len(found)))].sum(1)
    values, counts = np.unique(found, return_counts=True)
    collapsed = bootstrap_sums(values, counts, DRAWS, rng)
    spread = naive.std()
    assert collapsed.mean() == pytest.approx(naive.mean(), abs=5 * spread * np.sqrt(2 / DRAWS))
    assert collapsed.std() == pytest.approx(spread, rel=0.03)
    quantiles = [2.5, 25, 50, 75, 97.5]
    assert np.abs(np.percentile(collapsed, quantiles) - np.percentile(naive, quantiles)).max() <= 1.0  # sums are whole


def test_sign_flip_equals_naive_flipping_of_each_query() -> None:
    found = differences(*made_up_ranks(300, 0.1))
    rng = np.random.default_rng(2)
    naive = (rng.choice([-1, 1], (DRAWS, len(found))) * found).sum(1)
    values, counts = np.unique(found, return_counts=True)
    collapsed = sign_flip_sums(values, counts, DRAWS, rng)
    for threshold in (-10, 0, 5, 10, 15):
        assert (collapsed >= threshold).mean() == pytest.approx((naive >= threshold).mean(), abs=0.02)


def test_a_sure_improvement_reaches_the_smallest_p_and_a_sure_loss_the_largest() -> None:
    better, worse = torch.ones(400, dtype=torch.int64), torch.full((400,), 2)
    comparison = compare_ranks(worse, better, draws=999)
    assert comparison.p == 1 / 1000
    assert (comparison.delta_sum_r, comparison.low, comparison.high) == (100.0, 100.0, 100.0)
    assert compare_ranks(better, worse, draws=999).p == 1.0


def test_without_any_difference_nothing_is_claimed() -> None:
    same = torch.tensor([1, 4, 9, 80, 3000])
    comparison = compare_ranks(same, same)
    assert (comparison.delta_sum_r, comparison.low, comparison.high, comparison.p) == (0.0, 0.0, 0.0, 1.0)
    assert str(comparison) == "ΔSumR +0.00 [+0.00, +0.00], p = 1.000"


def test_the_seed_decides_the_draws() -> None:
    before, after = made_up_ranks(300, 0.05)
    assert compare_ranks(before, after) == compare_ranks(before, after)
    assert compare_ranks(before, after, seed=1) != compare_ranks(before, after, seed=2)


def test_score_matrices_are_compared_through_their_ranks() -> None:
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(60, 150, generator=generator)
    labels = torch.arange(60)
    other = base.clone()
    other[labels, labels] += 0.5
    comparison = compare(base, other, labels)
    assert comparison.count == 60
    assert comparison.rank_down == 0
    assert comparison.delta_sum_r > 0
    assert str(comparison).startswith(f"ΔSumR +{comparison.delta_sum_r:.2f} [+")
    assert str(comparison).endswith("p < 0.001")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)), "same gallery"),
        (lambda: compare_ranks(torch.tensor([1, 2]), torch.tensor([1])), "2 base ranks against 1"),
        (lambda: compare_ranks(torch.tensor([1]), torch.tensor([1]), draws=0), "draws is 0"),
    ],
)
def test_what_cannot_be_paired_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
def test_intervals_cover_the_truth_and_p_is_uniform_under_the_null() -> None:
    """Simulation: differences drawn from a known law; 95 % intervals cover its mean about 95 times in 100."""
    values = np.arange(-4, 5)
    odds = np.array([1, 1, 3, 12, 150, 20, 6, 2, 1]) / 196
    truth = 100 * float(values @ odds)
    rng = np.random.default_rng(3)
    covered, null_p = [], []
    for trial in range(400):
        drawn = rng.choice(values, 500, p=odds)
        comparison = compare_ranks(*ranks_with_differences(drawn), draws=2000, seed=trial)
        covered.append(comparison.low <= truth <= comparison.high)
        fair = np.abs(drawn) * rng.choice([-1, 1], 500)
        null_p.append(compare_ranks(*ranks_with_differences(fair), draws=2000, seed=trial).p)
    assert 0.92 <= np.mean(covered) <= 0.98  # 0.95 ± 2.7 standard errors
    for level in (0.05, 0.25, 0.5, 0.75):  # valid (never too small) and, but for ties of whole sums, uniform
        assert np.mean(np.array(null_p) <= level) == pytest.approx(level, abs=0.07)


def ranks_with_differences(found: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Ranks whose cut-offs met differ by exactly the given amounts."""
    rank_meeting = np.array([101, 11, 6, 2, 1])
    before = rank_meeting[np.maximum(0, -found)]
    after = rank_meeting[np.maximum(0, found)]
    return torch.from_numpy(before), torch.from_numpy(after)


def test_both_tests_agree_with_full_enumeration() -> None:
    """Five differences: all 2⁵ signs and all 5⁵ resamples can be written down."""
    found = np.array([2, 1, 1, 0, -1])
    comparison = compare_ranks(*ranks_with_differences(found))
    signs = np.array(list(itertools.product([-1, 1], repeat=5)))
    assert comparison.p == pytest.approx(((signs * found).sum(1) >= found.sum()).mean(), abs=0.01)
    resamples = found[np.array(list(itertools.product(range(5), repeat=5)))].mean(1)
    low, high = 100 * np.percentile(resamples, [2.5, 97.5])
    assert (comparison.low, comparison.high) == pytest.approx((low, high), abs=20.01)  # sums are whole: steps of 20
    values, counts = np.unique(found, return_counts=True)
    drawn = bootstrap_sums(values, counts, 200_000, np.random.default_rng(0)) / 5
    assert drawn.mean() == pytest.approx(resamples.mean(), abs=0.01)
    assert drawn.std() == pytest.approx(resamples.std(), rel=0.01)


def test_the_mean_gain_is_in_ranks() -> None:
    found = mean_rank_gain(torch.tensor([10, 5, 3, 8]), torch.tensor([4, 5, 5, 8]))
    assert found.delta == pytest.approx(1.0)
    assert found.low <= 1.0 <= found.high


def test_a_pooled_interval_does_not_count_a_video_or_a_seed_twice() -> None:
    before, after = made_up_ranks(300, shift=0.05)
    videos = tuple(map(str, range(300)))
    one = pooled_change([RankPair(before, after, videos)])
    plain = compare_ranks(before, after).sum_r
    assert one.delta == pytest.approx(plain.delta)
    assert (one.low, one.high) == pytest.approx((plain.low, plain.high), abs=0.5)
    # Three copies of each query of a video, or three trainings that agree: nothing new is known.
    copies = RankPair(before.repeat(3), after.repeat(3), videos * 3)
    seeds = [RankPair(before, after, videos)] * 3
    for again in (pooled_change([copies]), pooled_change(seeds)):
        assert (again.delta, again.low, again.high) == pytest.approx((one.delta, one.low, one.high), abs=0.5)
    # Another dataset is new: the interval shrinks by about √2.
    other = [RankPair(before, after, videos, "first"), RankPair(before, after, videos, "second")]
    both = pooled_change(other)
    assert (both.high - both.low) / (one.high - one.low) == pytest.approx(2**-0.5, rel=0.08)


def test_videos_that_two_parts_share_are_drawn_once() -> None:
    """Parts over videos a, b and b, c: all 3³ samples and all 2³ signs of three videos can be written down."""
    sums = {"a": (3.0, 0.0), "b": (1.0, 2.0), "c": (0.0, -1.0)}  # of each part; one query a video
    pooled, flipped = [], []
    for sample in itertools.product("abc", repeat=3):
        first, second = (sum(video in part for video in sample) for part in ("ab", "bc"))
        if first and second:
            means = [sum(sums[video][part] for video in sample) / n for part, n in ((0, first), (1, second))]
            pooled.append(sum(means) / 2)
    for signs in itertools.product((-1, 1), repeat=3):
        flipped.append(sum(sign * sum(sums[video]) / 4 for sign, video in zip(signs, "abc", strict=True)))
    assert len(pooled) == 25, "aaa lacks the second part, ccc the first"
    parts = [(np.array([[3.0], [1.0]]), ["a", "b"]), (np.array([[2.0], [-1.0]]), ["b", "c"])]
    found = ClusterDraws.average(joint_changes(parts, draws=50_000))
    assert found.observed[0] == 1.25
    assert found.drawn.mean() == pytest.approx(np.mean(pooled), abs=0.02)
    assert found.drawn.std() == pytest.approx(np.std(pooled), rel=0.02)
    reached = np.mean([value >= 1.25 for value in flipped])
    assert reached == 2 / 8  # (3 + 3 − 1) / 4 was observed: a and b keep their signs, c may turn
    assert found.estimate(0).p == pytest.approx(reached, abs=0.01)
