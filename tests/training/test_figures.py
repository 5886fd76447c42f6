"""A trainer's figures: names, following, resumed steps, and the stops."""

import json
from pathlib import Path

import pytest

from runner.schema_training import Sanity
from runner.training.errors import TrainerError
from runner.training.figures import Follower, check_sanity, metric_name, read_points


def tell(path: Path, step: int, **values: float) -> None:
    with path.open("a") as file:
        for tag, value in values.items():
            file.write(json.dumps({"tag": f"train/{tag}", "step": step, "value": value, "time": 0.0}) + "\n")


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("train/rollout/reward_mean", "ppo/reward"),
        ("train/policy_loss", "ppo/policy_loss"),
        ("train/ppo_kl", "ppo/kl"),
        ("train/timing/generation", "ppo/seconds_rollout"),
        ("train/turns", "ppo/turns"),
        ("train/end_done", "ppo/end_done"),
        ("eval/eval_endless_pass1", "ppo/dev/pass_at_1"),
        ("eval/eval_endless_pass4", "ppo/dev/pass_at_4"),
        ("train/reward", None),
    ],
)
def test_tags_have_fixed_names(tag: str, name: str | None) -> None:
    assert metric_name("ppo", tag) == name


def test_a_step_is_handed_out_once_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    follower = Follower(path, "ppo")
    tell(path, 1, policy_loss=0.5)
    assert follower.new_points() == []
    tell(path, 1, turns=3.0)
    tell(path, 2, policy_loss=0.4)
    assert follower.new_points() == [(1, {"ppo/policy_loss": 0.5, "ppo/turns": 3.0})]
    assert follower.new_points() == []
    assert follower.new_points(ended=True) == [(2, {"ppo/policy_loss": 0.4})]


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    follower = Follower(path, "ppo")
    tell(path, 1, turns=3.0)
    line = json.dumps({"tag": "train/turns", "step": 2, "value": 4.0, "time": 0.0})
    with path.open("a") as file:
        file.write(line[:20])
    assert follower.new_points() == []
    with path.open("a") as file:
        file.write(line[20:] + "\n")
    assert follower.new_points(ended=True) == [(1, {"ppo/turns": 3.0}), (2, {"ppo/turns": 4.0})]


def test_a_follower_of_a_resumed_training_begins_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    tell(path, 1, turns=3.0)
    follower = Follower(path, "ppo")
    tell(path, 2, turns=4.0)
    assert follower.new_points(ended=True) == [(2, {"ppo/turns": 4.0})]


def test_a_step_that_was_trained_again_counts_as_it_was_last(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    for step, turns in [(1, 3.0), (2, 4.0), (3, 5.0), (2, 4.5), (3, 5.5)]:
        tell(path, step, turns=turns)
    assert [figures["ppo/turns"] for _, figures in read_points(path, "ppo")] == [3.0, 4.5, 5.5]


def points(*rows: dict[str, float]) -> list[tuple[int, dict[str, float]]]:
    return [(step, {f"ppo/{name}": value for name, value in row.items()}) for step, row in enumerate(rows, 1)]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"policy_loss": float("nan")}], "ppo/policy_loss is not a number"),
        ([{"repeated": 1.0}], "one token over and over"),
        ([{"masked": 0.6}], "lost to infrastructure"),
        ([{"reward": 0.0}] * 3, "not one reward in 3 steps"),
        ([{"entropy": 1e-6}] * 3, "entropy is below"),
    ],
)
def test_a_training_that_learns_nothing_is_ended_with_the_reason(rows: list[dict[str, float]], reason: str) -> None:
    with pytest.raises(TrainerError, match=reason):
        check_sanity(points(*rows), Sanity(zero_reward_steps=3))


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"reward": 0.0}] * 2,
        [{"reward": 0.0}, {"reward": 0.1}, {"reward": 0.0}],
        [{"entropy": 1e-6}, {"entropy": 1e-6}, {"entropy": 0.1}],
        [{"masked": 0.4, "repeated": 0.5, "policy_loss": -0.1}],
    ],
)
def test_a_training_that_may_still_learn_goes_on(rows: list[dict[str, float]]) -> None:
    check_sanity(points(*rows), Sanity(zero_reward_steps=3))


def test_zero_switches_a_stop_off() -> None:
    off = Sanity(zero_reward_steps=0, repeated_token_share=0, min_entropy=0, infra_share=0)
    check_sanity(points(*[{"reward": 0.0, "repeated": 1.0, "entropy": 0.0, "masked": 1.0}] * 30), off)
