"""Intervals and paired comparisons, against scipy and figures worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from runner.analysis.statistics import EXACT_TASKS, Difference, Interval, bootstrap_tasks, paired, wilson

RATES = [0.0, 0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 1.0, 1.0, 0.0, 0.25, 0.75]


def _tasks(rates: list[float]) -> dict[str, float]:
    return {f"task-{i:03d}": rate for i, rate in enumerate(rates)}


@given(
    st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.8, 0.95, 0.99])
)
@settings(max_examples=60, deadline=None)
def test_wilson_is_scipys(counts: tuple[int, int], level: float):
    passes, n = counts
    ours = wilson(passes, n, level)
    if n == 0:
        assert ours == Interval(0.0, 1.0, level)
        return
    theirs = stats.binomtest(passes, n).proportion_ci(confidence_level=level, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert ours.low <= passes / n <= ours.high


def test_wilson_for_one_and_six_of_89_tasks_overlap():
    one, six = wilson(1, 89), wilson(6, 89)
    assert (one.low, one.high) == pytest.approx((0.00199, 0.06093), abs=1e-5)
    assert (six.low, six.high) == pytest.approx((0.03126, 0.13937), abs=1e-5)
    assert one.high > six.low


@pytest.mark.parametrize(("passes", "n", "level"), [(2, 1, 0.95), (-1, 3, 0.95), (1, 2, 1.0), (1, 2, 0.0)])
def test_impossible_counts_and_levels_are_refused(passes: int, n: int, level: float):
    with pytest.raises(ValueError):
        wilson(passes, n, level)


def test_the_bootstrap_agrees_with_scipys_percentile_method():
    rates = RATES * 8
    ours = bootstrap_tasks(rates, level=0.9, seed=3)
    theirs = stats.bootstrap(
        (rates,), np.mean, confidence_level=0.9, method="percentile", n_resamples=20_000, rng=np.random.default_rng(5)
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)
    assert ours.level == 0.9


def test_the_bootstrap_of_two_tasks_is_what_four_equally_likely_samples_give():
    # The mean is 0 or 1 with probability 1/4 each, else 1/2; so 40 % of samples lie in the middle ...
    assert bootstrap_tasks([0.0, 1.0], level=0.4) == Interval(0.5, 0.5, 0.4)
    # ... and 95 % reach the ends.
    assert bootstrap_tasks([0.0, 1.0]) == Interval(0.0, 1.0, 0.95)


def test_the_same_seed_gives_the_same_interval():
    assert bootstrap_tasks(RATES, 0.95, 7) == bootstrap_tasks(RATES, 0.95, 7)
    before, after = _tasks(RATES), _tasks(RATES[::-1])
    assert paired(before, after, seed=7) == paired(before, after, seed=7)


def test_many_tasks_are_resampled_in_batches():
    rates = RATES * 80
    interval = bootstrap_tasks(rates)
    half = 1.96 * float(np.std(rates)) / math.sqrt(len(rates))
    assert (interval.low, interval.high) == pytest.approx((np.mean(rates) - half, np.mean(rates) + half), abs=1e-3)


def test_tasks_that_all_fail_leave_room_for_some_that_do_not():
    assert bootstrap_tasks([0.0] * 100) == wilson(0, 100)
    assert bootstrap_tasks([1.0] * 100).low == pytest.approx(wilson(100, 100).low)
    half = bootstrap_tasks([0.5] * 100)
    assert half.low < 0.5 < half.high


def test_no_task_and_one_task_say_next_to_nothing():
    assert bootstrap_tasks([]) == Interval(0.0, 1.0, 0.95)
    one = bootstrap_tasks([0.5])
    assert one.low < 0.15
    assert one.high > 0.85


def test_a_rate_outside_of_0_to_1_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        bootstrap_tasks([0.2, 1.2])


def test_the_sign_flip_test_counts_every_pattern_of_few_tasks():
    # Three tasks, all better by the same: of eight patterns two (all plus, all minus) are as large.
    worse, better = _tasks([0.0, 0.25, 0.5]), _tasks([0.5, 0.75, 1.0])
    assert paired(worse, better).p_value == 2 / 8
    assert paired(worse, better).delta == 0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_test_is_scipys_permutation_test(seed: int):
    generator = np.random.default_rng(seed)
    before, after = generator.integers(0, 5, (2, 9)) / 4
    ours = paired(_tasks(before.tolist()), _tasks(after.tolist()))
    theirs = stats.permutation_test(
        (after, before), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    )
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert ours.delta == pytest.approx(theirs.statistic)


def test_many_tasks_are_tested_by_drawn_patterns():
    generator = np.random.default_rng(1)
    before = generator.integers(0, 5, 40) / 4
    after = np.clip(before + generator.integers(-2, 4, 40) / 4, 0, 1)
    assert (before != after).sum() > EXACT_TASKS
    ours = paired(_tasks(before.tolist()), _tasks(after.tolist()))
    theirs = stats.permutation_test(
        (after, before),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        vectorized=True,
        permutation_type="samples",
        n_resamples=50_000,
        rng=np.random.default_rng(2),
    )
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.01)


def test_a_drawn_p_value_is_never_zero():
    assert 0 < paired(_tasks([0.0] * 60), _tasks([1.0] * 60)).p_value < 0.001


def test_only_common_tasks_count_and_the_number_says_so():
    found = paired({"a": 0.0, "b": 0.5, "only before": 1.0}, {"a": 0.5, "b": 0.5, "only after": 0.0})
    assert (found.delta, found.tasks) == (0.25, 2)


def test_without_a_common_task_nothing_is_known():
    assert paired({"a": 1.0}, {"b": 0.0}) == Difference(0.0, Interval(-1.0, 1.0, 0.95), 1.0, 0)


def test_equal_models_do_not_differ():
    found = paired(_tasks(RATES), _tasks(RATES))
    assert (found.delta, found.p_value) == (0.0, 1.0)
    assert found.interval.low < 0 < found.interval.high


def test_one_better_task_proves_nothing():
    found = paired({"a": 0.0}, {"a": 1.0})
    assert (found.delta, found.p_value, found.tasks) == (1.0, 1.0, 1)
    assert found.interval.low < 0


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 4), st.integers(0, 4))))
@settings(max_examples=40, deadline=None)
def test_swapping_the_models_turns_the_sign_and_keeps_the_p_value(rates: dict[str, tuple[int, int]]):
    one, other = ({task: pair[i] / 4 for task, pair in rates.items()} for i in (0, 1))
    there, back = paired(one, other), paired(other, one)
    assert there.delta == pytest.approx(-back.delta)
    assert there.p_value == back.p_value
    assert there.interval.low <= there.delta <= there.interval.high
