"""Two runs compared: paired where they share tasks, else as independent samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.comparison import compare, holm
from runner.analysis.statistics import paired

BEFORE = {f"task-{n}": n / 20 for n in range(20)}
AFTER = {task: min(1.0, rate + 0.3) for task, rate in BEFORE.items()}
ELSEWHERE = {f"other-{task}": rate for task, rate in AFTER.items()}


def test_the_same_tasks_are_compared_pairwise():
    found, direct = compare(BEFORE, AFTER), paired(BEFORE, AFTER)
    assert found.is_paired
    assert found.items == (20, 20)
    assert (found.delta, found.interval, found.p_value) == (direct.delta, direct.interval, direct.p_value)


def test_other_tasks_are_compared_as_samples_and_say_less():
    found, same = compare(BEFORE, ELSEWHERE), compare(BEFORE, AFTER)
    assert not found.is_paired
    assert found.delta == pytest.approx(same.delta)
    assert found.p_value > same.p_value
    assert found.interval.low < same.interval.low
    assert found.interval.low < found.delta < found.interval.high


def test_a_permutation_test_of_few_items_is_exact():
    found = compare({"a": 0.0, "b": 0.0}, {"c": 1.0, "d": 1.0})
    assert found.p_value == pytest.approx(2 / 6)


def test_half_of_the_smaller_set_is_enough_for_pairs():
    assert compare(BEFORE, {"task-1": 0.5, "other": 0.5}).items == (1, 1)
    assert not compare(BEFORE, {"task-1": 0.5, "other": 0.5, "another": 0.1}).is_paired


def test_nothing_to_compare():
    assert compare({}, AFTER) is None
    assert compare({"a": 1.0}, {"b": 0.0}).p_value == 1.0


def test_holm_is_the_textbooks():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.2]) == [0.2]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_a_corrected_p_value_is_no_smaller_and_keeps_the_order(p_values):
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    ordered = [c for _, c in sorted(zip(p_values, corrected, strict=True))]
    assert ordered == sorted(ordered)
