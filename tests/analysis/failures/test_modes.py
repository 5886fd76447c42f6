"""Failure modes against hand labels, and the invariants of the classification."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.labelled import Labelled, labelled_episodes, ran

from runner.analysis.failures import FailureMode, classify
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import EndReason, Episode, Outcome, Turn

DEFAULTS = AnalysisSettings()
LABELLED = labelled_episodes()


def _episode(*turns: Turn, end: EndReason = EndReason.TURN_LIMIT, outcome: Outcome = Outcome.FAIL) -> Episode:
    return Episode(task_id="t", sample=0, outcome=outcome, end=end, turns=turns)


def test_there_are_labels_enough_and_every_mode_has_some():
    assert len(LABELLED) >= 40
    assert {one.mode for one in LABELLED} == {None, *FailureMode}
    assert len({one.name for one in LABELLED}) == len(LABELLED)


@pytest.mark.parametrize("labelled", LABELLED, ids=lambda labelled: labelled.name.replace(" ", "-"))
def test_an_episode_has_the_mode_that_the_definitions_give_it(labelled: Labelled):
    assert classify(labelled.episode, DEFAULTS) == labelled.expected


def test_the_agreement_with_a_reader_is_all_but_the_listed_ones(capsys: pytest.CaptureFixture[str]):
    found = [(one.mode or "pass", classify(one.episode, DEFAULTS) or "pass") for one in LABELLED]
    agree = sum(label == mode for label, mode in found)
    with capsys.disabled():
        print("\n" + _confusion(Counter(found)))
        print(f"agreement: {agree} of {len(found)}")
        for one in LABELLED:
            if one.mode != one.expected:
                print(f"  {one.name}: a reader says {one.mode}, the definition {one.expected}: {one.because}")
    listed = [one for one in LABELLED if one.mode != one.expected]
    assert agree == len(found) - len(listed)
    assert all(one.because for one in listed)
    assert agree / len(found) >= 0.9


def _confusion(counts: Counter[tuple[str, str]]) -> str:
    names = [*FailureMode, "pass"]
    rows = [
        f"{label:>15} " + " ".join(f"{counts[label, mode] or '.':>{len(mode)}}" for mode in names) for label in names
    ]
    return "\n".join([f"{'reader | code':>15} " + " ".join(names), *rows])


def test_infra_comes_before_everything():
    loop = [ran("ls", out="a")] * 9
    assert classify(_episode(*loop, outcome=Outcome.INFRA), DEFAULTS) is FailureMode.INFRA
    assert classify(_episode(*loop, end=EndReason.INFRA), DEFAULTS) is FailureMode.INFRA


@pytest.mark.parametrize(
    ("name", "value", "mode"),
    [
        ("loop_repeats", 5, FailureMode.TURN_LIMIT),
        ("loop_share", 0.9, FailureMode.LOOP),
        ("loop_cycle", 1, FailureMode.LOOP),
    ],
)
def test_thresholds_are_settings(name: str, value: float, mode: FailureMode):
    episode = _episode(ran("pwd", out="/"), *[ran("ls", out="a")] * 4)
    assert classify(episode, replace(DEFAULTS, **{name: value})) is mode


_COMMANDS = st.sampled_from(["ls -la", "cat a", "sleep 1", "python3 try1.py", "grep 'x' y", "echo $(date)", "'", "((("])
_RAN = st.builds(ran, _COMMANDS, code=st.sampled_from([0, 1, 2]), out=st.sampled_from(["", "a", "12:00:01 up"]))
_ANY_TURN = st.one_of(
    _RAN,
    st.just(Turn(reply="x", invalid="no action", observation="again")),
    st.just(Turn(reply="x", command="ls")),
    st.just(Turn(reply="done")),
    st.builds(lambda command: Turn(reply=command, command=command, observation=command), st.text()),
)
_EPISODES = st.builds(
    lambda turns, end, outcome: _episode(*turns, end=end, outcome=outcome),
    st.lists(_ANY_TURN, max_size=18),
    st.sampled_from(EndReason),
    st.sampled_from(Outcome),
)


@given(_EPISODES)
@settings(max_examples=150, deadline=None)
def test_every_episode_has_exactly_one_mode_and_a_pass_none(episode: Episode):
    mode = classify(episode, DEFAULTS)
    assert (mode is None) == (episode.outcome is Outcome.PASS)
    assert mode == classify(episode, DEFAULTS)


def _padded(command: str) -> str:
    return f"  {command.replace(' ', '   ')}  # again"


def _requoted(command: str) -> str:
    return " ".join(f'"{word}"' if word.isalnum() else word for word in command.split(" "))


@given(
    st.lists(
        st.builds(ran, st.sampled_from(["ls -la", "cat a", "sleep 1", "make all"]), code=st.sampled_from([0, 1])),
        max_size=12,
    ),
    st.lists(st.sampled_from([str, _padded, _requoted]), min_size=12, max_size=12),
)
@settings(max_examples=100, deadline=None)
def test_cosmetic_changes_of_single_commands_change_no_mode(turns: list[Turn], changes: list[Callable[[str], str]]):
    changed = [replace(turn, command=change(turn.command)) for turn, change in zip(turns, changes, strict=False)]
    assert classify(_episode(*changed), DEFAULTS) == classify(_episode(*turns), DEFAULTS)
