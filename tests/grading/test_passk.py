"""The unbiased pass@k."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.grading.passk import mean_pass_at_k, pass_at_k


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_it_is_the_share_of_k_subsets_with_a_success(case):
    n, c, k = case
    subsets = list(combinations(range(n), k))
    share = sum(any(i < c for i in s) for s in subsets) / len(subsets)
    assert pass_at_k(n, c, k) == pytest.approx(share)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k(n, c, k)


def test_the_mean_leaves_out_tasks_with_too_few_attempts():
    assert mean_pass_at_k([(4, 4), (4, 0), (1, 1)], 2) == pytest.approx(0.5)
    assert mean_pass_at_k([(1, 1)], 2) is None
