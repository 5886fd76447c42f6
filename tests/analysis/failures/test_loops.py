"""Where a loop begins, how long it is, and how often it goes round."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.labelled import ran

from runner.analysis.failures import Loop, find_loops
from runner.analysis.failures.steps import Step, steps
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import EndReason, Episode, Outcome, Turn

DEFAULTS = AnalysisSettings()


def _steps(*turns: Turn) -> tuple[Step, ...]:
    return steps(Episode(task_id="t", sample=0, outcome=Outcome.FAIL, end=EndReason.TURN_LIMIT, turns=turns))


def _letters(text: str) -> tuple[Step, ...]:
    return _steps(*[ran(f"cat {letter}", out=letter) for letter in text])


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("", None),
        ("aa", None),
        ("abab", None),
        ("aaa", (0, 3, 1)),
        ("xaaaay", (1, 4, 1)),
        ("ababab", (0, 6, 2)),
        ("zabababa", (1, 7, 2)),
        ("abcabcabc", (0, 9, 3)),
        ("abcdeabcdeabcde", (0, 15, 5)),
        ("abcdefabcdefabcdef", None),
        ("aabaabaab", (0, 9, 3)),
        ("aaaxbbbbb", (4, 5, 1)),
    ],
)
def test_the_longest_repetition_of_the_shortest_cycle_comes_first(letters: str, expected: tuple[int, int, int] | None):
    found = find_loops(_letters(letters), DEFAULTS)
    first = (found[0].start, found[0].length, found[0].cycle) if found else None
    assert first == expected


def test_rounds_are_whole():
    assert Loop(start=1, length=7, cycle=2).rounds == 3
    assert Loop(start=1, length=7, cycle=2).end == 8


def test_every_loop_is_found_once():
    assert [(loop.start, loop.length) for loop in find_loops(_letters("aaaaaa"), DEFAULTS)] == [(0, 6)]
    assert {(loop.start, loop.length) for loop in find_loops(_letters("aaaxbbbbb"), DEFAULTS)} == {(0, 3), (4, 5)}


@pytest.mark.parametrize(("rounds", "loops"), [(3, False), (4, False), (5, True)])
def test_waiting_gets_more_patience(rounds: int, loops: bool):
    polling = [ran("sleep 5; curl -s localhost", code=7)] * rounds
    assert bool(find_loops(_steps(*polling), DEFAULTS)) is loops


@pytest.mark.parametrize(("tries", "loops"), [(4, False), (5, True)])
def test_failing_commands_with_other_numbers_get_it_too(tries: int, loops: bool):
    turns = [ran(f"nc localhost {8000 + i}", code=1, out=f"port {8000 + i}: refused") for i in range(tries)]
    assert bool(find_loops(_steps(*turns), DEFAULTS)) is loops


def test_commands_that_succeed_are_no_variants_of_each_other():
    assert not find_loops(_steps(*[ran(f"touch day{i}.txt") for i in range(12)]), DEFAULTS)


def test_a_new_result_breaks_a_loop():
    assert not find_loops(_steps(*[ran("make", code=2, out=f"{i} errors") for i in (9, 8, 9, 8)]), DEFAULTS)[1:]
    assert not find_loops(_steps(*[ran("make", out=f"{i} left") for i in range(9)]), DEFAULTS)


def test_the_last_command_that_found_no_time_is_no_step():
    assert len(_steps(ran("ls"), Turn(reply="", command="ls"))) == 1


@given(st.text("abc", max_size=20), st.integers(1, 5), st.integers(2, 4))
@settings(max_examples=150, deadline=None)
def test_a_loop_is_what_its_numbers_say(letters: str, cycle: int, repeats: int):
    settings_ = replace(DEFAULTS, loop_cycle=cycle, loop_repeats=repeats)
    for loop in find_loops(_letters(letters), settings_):
        stretch = letters[loop.start : loop.end]
        assert len(stretch) == loop.length
        assert all(stretch[i] == stretch[i % loop.cycle] for i in range(loop.length))
        assert loop.rounds >= repeats
        assert loop.cycle <= cycle


@given(st.text("ab", min_size=1, max_size=3), st.integers(3, 5))
@settings(max_examples=50, deadline=None)
def test_whatever_is_repeated_often_enough_is_found(round_: str, repeats: int):
    assert find_loops(_letters(round_ * repeats), DEFAULTS)[0].length == len(round_) * repeats
