"""Which tasks stay."""

import pytest

from runner.domain.episode import Outcome
from runner.domain.errors import RecipeError
from runner.phases.filter.predicates import parse, parse_all
from runner.phases.summary import EpisodeFacts, summarise


def facts(*outcomes):
    return [
        EpisodeFacts(task_id="t", sample=i, outcome=Outcome(o), end="done", turns=i + 1, seconds=1.0)
        for i, o in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("pass_at_n > 0", True),
        ("pass_rate == 0.25", True),
        ("passes>=2", False),
        ("pass_at_2 > 0.4", True),
        ("pass_at_1 <= 0.875", True),
        ("mean_turns < 2.5", False),
    ],
)
def test_predicates_read_the_summary(text, holds):
    summary = summarise("t", facts("pass", "fail", "fail", "fail"), None)
    assert parse(text, 4).holds(summary) is holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pass_at_n", "NAME OP NUMBER"),
        ("pas_rate > 0", "did you mean pass_rate"),
        ("pass_at_9 > 0", "between 1 and filter.n = 4"),
        ("__import__('os') > 0", "NAME OP NUMBER"),
    ],
)
def test_wrong_predicates_are_explained(text, says):
    with pytest.raises(RecipeError, match=says):
        parse(text, 4)


def test_lost_episodes_are_in_no_estimate():
    summary = summarise("t", facts("pass", "infra", "fail"), None)
    assert (summary.episodes, summary.infra, summary.pass_rate) == (2, 1, 0.5)
    assert summary.pass_at(3) == 0.0


def test_early_stopping_estimates_from_the_first_episodes_only():
    summary = summarise("t", facts("fail", "fail", "pass"), 2)
    assert (summary.pass_rate, summary.passes) == (0.0, 1)
    assert parse_all(["pass_at_n > 0"], 16, 2)[0].holds(summary)


def test_early_stopping_refuses_predicates_that_need_every_episode():
    with pytest.raises(RecipeError, match="early_stop cannot serve"):
        parse_all(["pass_rate > 0.1"], 16, 4)
