"""Diversity, recovery and the summary of many episodes, against figures counted by hand."""

import json

import pytest
from support.labelled import labelled_episodes, ran

from runner.analysis.failures import FailureMode, Recovery, facts_of, summarise
from runner.analysis.failures.diversity import DEFINITION
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.domain.plain import plain

DEFAULTS = AnalysisSettings()
DONE = Turn(reply="<action>done</action>", input_tokens=50, output_tokens=5)


def _episode(task: str, *turns: Turn, passes: bool = False, end: EndReason = EndReason.DONE) -> Episode:
    outcome = Outcome.PASS if passes else Outcome.FAIL
    return Episode(task_id=task, sample=0, outcome=outcome, end=end, turns=turns, seconds=8.0)


def test_diversity_is_the_share_of_distinct_commands_after_the_first_failure():
    episode = _episode(
        "t", ran("ls"), ran("make", 2), ran("ls"), ran("make", 2), ran(" ls # again"), ran("cat a"), DONE
    )
    assert facts_of(episode, DEFAULTS).diversity == 3 / 4
    assert facts_of(episode, AnalysisSettings(diversity_window=3)).diversity == 2 / 3


@pytest.mark.parametrize(
    "turns", [(), (ran("ls"),), (ran("ls"), ran("make", 2)), (ran("make", 2), ran("ls")), (ran("grep x f", 1), DONE)]
)
def test_without_a_failure_and_two_commands_after_it_there_is_no_diversity(turns: tuple[Turn, ...]):
    assert facts_of(_episode("t", *turns), DEFAULTS).diversity is None


def test_recovery_counts_what_follows_each_failed_command():
    episode = _episode("t", ran("a", 1), ran("b", 1), ran("c"), ran("d", 2), ran("e"), ran("f", 3))
    assert facts_of(episode, DEFAULTS).recovery == Recovery(failed=4, next_succeeds=2, later_succeeds=3)


EPISODES = [
    _episode("one", ran("cat a | wc"), DONE, passes=True),
    _episode("one", ran("make", 2), ran("ls"), ran("make"), DONE, passes=True),
    _episode("two", ran("cat a"), DONE),
    _episode("two", *[ran("make", 2)] * 4, end=EndReason.TURN_LIMIT),
    _episode("two", ran("ls"), ran("cat b"), end=EndReason.TURN_LIMIT),
    Episode(task_id="two", sample=1, outcome=Outcome.INFRA, end=EndReason.INFRA, turns=(ran("halt"),)),
]
LABELS = {"one": {"category": "logs", "scenario": "developer"}, "two": {"category": "cron", "scenario": "developer"}}


def test_shares_are_of_failed_graded_episodes_and_infra_is_apart():
    summary = summarise(iter(EPISODES), DEFAULTS)
    assert (summary.episodes, summary.passes, summary.failures, summary.infra) == (6, 2, 3, 1)
    assert list(summary.modes) == list(FailureMode)
    assert summary.modes[FailureMode.INFRA].share is None
    assert summary.modes[FailureMode.INFRA].count == 1
    assert summary.loop_share == summary.turn_limit_share == pytest.approx(1 / 3)
    assert sum(mode.share or 0 for mode in summary.modes.values()) == pytest.approx(1)


def test_diversity_is_told_with_its_definition_and_k():
    summary = summarise(EPISODES, DEFAULTS)
    assert (summary.diversity_pass.mean, summary.diversity_pass.episodes) == (1.0, 1)
    assert summary.diversity_fail.mean == pytest.approx(1 / 3)
    assert (summary.diversity_fail.window, summary.diversity_fail.definition) == (10, DEFINITION)


def test_recovery_and_programs_are_over_graded_episodes():
    summary = summarise(EPISODES, DEFAULTS)
    assert summary.recovery == Recovery(failed=5, next_succeeds=1, later_succeeds=1)
    assert (summary.next_succeeds, summary.later_succeeds) == (0.2, 0.2)
    told = [(one.program, one.uses, one.episodes) for one in summary.programs]
    assert told == [("make", 6, 2), ("cat", 3, 3), ("ls", 2, 2), ("wc", 1, 1)]


def test_what_a_success_takes_is_over_passing_episodes():
    success = summarise(EPISODES, DEFAULTS).success
    assert (success.episodes, success.mean_turns, success.median_turns, success.mean_seconds) == (2, 3.0, 3.0, 8.0)
    assert success.mean_output_tokens == (15 + 35) / 2
    assert success.mean_tokens == (165 + 385) / 2


def test_the_same_is_told_per_label():
    by_label = summarise(EPISODES, DEFAULTS, LABELS).by_label
    assert list(by_label) == ["category", "scenario"]
    assert list(by_label["category"]) == ["cron", "logs"]
    assert by_label["category"]["logs"].failures == 0
    assert by_label["category"]["logs"].loop_share is None
    assert by_label["category"]["cron"].infra == 1
    assert by_label["scenario"]["developer"].modes == summarise(EPISODES, DEFAULTS).modes


def test_nothing_at_all_has_no_shares():
    summary = summarise([], DEFAULTS)
    assert (summary.episodes, summary.loop_share, summary.next_succeeds, summary.diversity_fail.mean) == (
        0,
        None,
        None,
        None,
    )
    assert summary.success.mean_turns is None


def test_a_summary_has_a_plain_form():
    everything = [one.episode for one in labelled_episodes()]
    row = json.loads(json.dumps(plain(summarise(everything, DEFAULTS, {"labelled-00": {"category": "x"}}))))
    assert row["modes"]["loop"]["count"] > 0
    assert row["by_label"]["category"]["x"]["episodes"] == 1
