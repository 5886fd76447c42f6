"""Trials of a benchmark as scores: per model and harness, infra in no rate."""

import pytest
from support.finished import Finished

from runner.compose import compose
from runner.phases.evaluate.bench import bench_scores
from runner.phases.evaluate.phase import EvaluatePhase
from runner.store.jsonl import write_rows


def trial(task: str, attempt: int, outcome: str) -> dict[str, object]:
    return {"task": task, "attempt": attempt, "outcome": outcome, "reward": None, "error": "", "job": "result.json"}


@pytest.fixture
def made(tmp_path):
    config = compose("paper/qwen2.5-7b")
    made = Finished(tmp_path, config).generate().evaluate({"base": 0.1, "ppo": 0.6})
    return made.terminalbench(["base", "ppo"]).terminalbench(["ppo"], "terminus-2")


def test_a_score_is_the_mean_over_tasks_of_what_was_graded(tmp_path):
    path = tmp_path / "terminalbench" / "ppo" / "endless" / "trials.jsonl"
    rows = [("a", "pass"), ("a", "fail"), ("b", "pass"), ("b", "infra"), ("c", "infra")]
    write_rows(path, [trial(task, n, outcome) for n, (task, outcome) in enumerate(rows)])
    (score,), rates = bench_scores(tmp_path, {"ppo": "after"}, level=0.95, seed=0)
    assert rates == {"eval/terminalbench/ppo": {"a": 0.5, "b": 1.0}}
    assert (score.value, score.tasks, score.trials, score.infra, score.role) == (0.75, 2, 3, 2, "after")
    assert score.low <= 0.75 <= score.high


def test_the_plain_metrics_are_the_policies_in_our_own_harness(made):
    metrics = EvaluatePhase().report(made.config, made.upstream["evaluate"], "e" * 16).metrics
    prefix = "eval/terminalbench"
    assert metrics[f"{prefix}/pass_at_1"] == metrics[f"{prefix}/ppo/pass_at_1"]
    assert metrics[f"{prefix}/pass_at_1_before"] == metrics[f"{prefix}/base/pass_at_1"]
    assert metrics[f"{prefix}/pass_at_1_low"] < metrics[f"{prefix}/pass_at_1"] < metrics[f"{prefix}/pass_at_1_high"]
    assert f"{prefix}/terminus-2/ppo/pass_at_1" in metrics
    assert f"{prefix}/pass_at_1" in made.config.reference


def test_without_a_benchmark_there_is_no_metric_of_it(made):
    metrics = EvaluatePhase().report(compose("quickstart", ["eval=dev"]), made.upstream["evaluate"], "e" * 16).metrics
    assert not any("terminalbench" in name for name in metrics)
