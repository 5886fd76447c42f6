"""Which tokens the policy is trained on: exactly those that it sampled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.training.executor.tokens import Trajectory

TOKENS = st.lists(st.integers(0, 9), max_size=8)


def test_a_trajectory_of_two_turns_by_hand():
    it = Trajectory(prompt=[1, 2, 3], limit=12, measured=True)
    it.observe([])
    it.act([10, 11], [-0.1, -0.2])
    it.observe([4, 5, 6])
    it.act([12], [-0.3])
    assert it.ids == [1, 2, 3, 10, 11, 4, 5, 6, 12]
    assert it.actions == [(3, 5), (8, 9)]
    assert it.log_probs == [0.0, 0.0, 0.0, -0.1, -0.2, 0.0, 0.0, 0.0, -0.3]
    assert it.sampled == [10, 11, 12]
    assert it.room([7, 8]) == 1


def test_a_reply_of_no_token_has_no_range():
    it = Trajectory(prompt=[1], limit=9)
    it.act([], None)
    it.observe([2])
    it.act([3], None)
    assert it.actions == [(2, 3)]
    assert it.log_probs is None


def test_a_context_may_be_filled_to_the_last_token_and_not_beyond():
    it = Trajectory(prompt=[1, 2], limit=4)
    assert it.room([3]) == 1
    it.observe([3])
    it.act([4], None)
    assert it.room([]) == 0
    with pytest.raises(AssertionError, match="longer than its context"):
        it.observe([5])


@pytest.mark.parametrize("reported", [None, [-0.1], [-0.1, -0.2, -0.3]])
def test_probabilities_that_are_not_one_a_token_are_refused(reported):
    with pytest.raises(ValueError, match="one log-probability"):
        Trajectory(prompt=[1], limit=9, measured=True).act([2, 3], reported)


@given(TOKENS, st.lists(st.tuples(TOKENS, TOKENS), max_size=6), st.booleans())
def test_every_sampled_token_is_in_a_range_and_no_other_is(prompt, turns, measured):
    it = Trajectory(prompt=prompt, limit=1000, measured=measured)
    wanted = [(token, False) for token in prompt]
    for observation, sampled in turns:
        it.observe(observation)
        it.act(sampled, [-1.0] * len(sampled) if measured else None)
        wanted += [(token, False) for token in observation] + [(token, True) for token in sampled]
    mask = [any(start <= i < end for start, end in it.actions) for i in range(len(it.ids))]
    assert list(zip(it.ids, mask, strict=True)) == wanted
    assert all(start < end for start, end in it.actions)
    assert it.sampled == [token for token, is_sampled in wanted if is_sampled]
    if measured:
        assert it.log_probs == [-1.0 if is_sampled else 0.0 for _, is_sampled in wanted]
