"""Scores, by hand: infrastructure in no rate, intervals over tasks, the best of equals."""

import pytest

from runner.domain.episode import Outcome
from runner.phases.evaluate.scores import best, compare, score
from runner.phases.summary import EpisodeFacts

LABELS = {"a": {"category": "logs"}, "b": {"category": "logs"}, "c": {"category": "git"}}


def facts(task: str, words: str, end: str = "done") -> list[EpisodeFacts]:
    """One letter an attempt: p, f, or i for infra."""
    kinds = {"p": Outcome.PASS, "f": Outcome.FAIL, "i": Outcome.INFRA}
    return [
        EpisodeFacts(task_id=task, sample=i, outcome=kinds[word], end=end, turns=4, seconds=2.0)
        for i, word in enumerate(words)
    ]


def scored(**tasks: str):
    rows = [row for task, words in tasks.items() for row in facts(task, words)]
    return score(rows, LABELS, samples=4, level=0.95, seed=0)


def test_pass_at_k_is_the_mean_over_tasks_of_the_unbiased_estimate():
    row = scored(a="pppp", b="pfff", c="ffff")
    assert row["pass_at"]["1"]["value"] == pytest.approx((1 + 1 / 4 + 0) / 3)
    assert row["pass_at"]["2"]["value"] == pytest.approx((1 + (1 - 3 / 6) + 0) / 3)
    assert row["pass_at"]["4"]["value"] == pytest.approx(2 / 3)
    assert (row["tasks"], row["episodes"], row["passes"], row["infra"]) == (3, 12, 5, 0)


def test_an_attempt_lost_to_infrastructure_is_counted_and_in_no_rate():
    row = scored(a="ppii", b="ffff", c="pppp")
    assert row["per_task"] == {"a": 1.0, "b": 0.0, "c": 1.0}
    assert (row["episodes"], row["infra"], row["infra_rate"]) == (10, 2, pytest.approx(2 / 12))
    assert row["pass_at"]["1"]["tasks"] == 3
    assert row["pass_at"]["4"]["tasks"] == 2, "a task with two graded attempts says nothing of pass@4"


def test_attempts_that_never_ended_are_infrastructures_too():
    row = scored(a="pppp", b="pp")
    assert (row["episodes"], row["infra"], row["tasks"]) == (6, 6, 2)


def test_an_interval_holds_its_value_and_widens_with_fewer_tasks():
    few, many = scored(a="pfff"), scored(a="pfff", b="pfff", c="pfff")
    for row in (few, many):
        assert 0 <= row["pass_at"]["1"]["low"] <= row["pass_at"]["1"]["value"] <= row["pass_at"]["1"]["high"] <= 1
    width = [row["pass_at"]["1"]["high"] - row["pass_at"]["1"]["low"] for row in (few, many)]
    assert width[0] >= width[1]


def test_labels_pool_the_attempts_of_their_tasks():
    labels = scored(a="pppp", b="ffff", c="pfff")["labels"]["category"]
    assert (labels["logs"]["tasks"], labels["logs"]["passes"], labels["logs"]["value"]) == (2, 4, 0.5)
    assert (labels["git"]["tasks"], labels["git"]["value"]) == (1, 0.25)


def test_two_models_are_compared_on_the_tasks_that_both_have():
    models = {"sft": scored(a="pfff", b="ffff"), "ppo": scored(a="pppp", b="pppp", c="pppp")}
    found = compare("sft", "ppo", models, level=0.95, seed=0)
    assert (found["tasks"], found["delta"]) == (2, pytest.approx((0.75 + 1.0) / 2))


def test_the_best_has_the_highest_rate_and_of_equals_it_is_the_latest():
    models = {"base": scored(a="ffff"), "ppo@10": scored(a="ppff"), "ppo": scored(a="ppff")}
    assert best(models, ["base", "ppo@10", "ppo"]) == "ppo"
    assert best({**models, "ppo": scored(a="pfff")}, ["base", "ppo@10", "ppo"]) == "ppo@10"
    assert best({"base": scored()}, ["base"]) == ""
