"""Trials of a benchmark, counted: pass@1 per model and harness, from the rows that the evaluation left."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from runner.analysis.statistics import bootstrap_tasks
from runner.domain.episode import Outcome
from runner.phases.evaluate.names import metric_name
from runner.phases.evaluate.terminalbench import BENCH, TRIALS
from runner.report.data import BenchScore
from runner.store.jsonl import read_lines

OURS = "endless"
"""The harness that training uses, too: what a plain metric is of."""


def bench_scores(
    evaluate: Path, roles: Mapping[str, str], *, level: float, seed: int
) -> tuple[list[BenchScore], dict[str, dict[str, float]]]:
    """The scores, and each one's rates by task, by the prefix of its metrics.

    ``roles``: model -> ``before`` or ``after``, what it is to the paper; for our own harness.
    """
    scores, rates = [], {}
    for path in sorted((evaluate / BENCH).glob(f"*/*/{TRIALS}")):
        model, harness = path.parts[-3], path.parts[-2]
        rows = list(read_lines(path))
        by_task = _rates(rows)
        rates[metric_prefix(harness, model)] = by_task
        if by_task:
            role = roles.get(model, "") if harness == OURS else ""
            scores.append(_score(model, harness, rows, by_task, role=role, level=level, seed=seed))
    return scores, rates


def bench_metrics(scores: list[BenchScore], before: str, after: str) -> Iterator[tuple[str, float]]:
    """``eval/terminalbench/pass_at_1`` and ``_before``, and every model's own, with the ends of their intervals."""
    for score in scores:
        yield from _metrics(metric_prefix(score.harness, score.model) + "/pass_at_1", score)
        yield f"{metric_prefix(score.harness, score.model)}/infra", float(score.infra)
        if score.harness == OURS and score.model == after:
            yield from _metrics(f"eval/{BENCH}/pass_at_1", score)
        if score.harness == OURS and score.model == before:
            yield from _metrics(f"eval/{BENCH}/pass_at_1_before", score)


def metric_prefix(harness: str, model: str) -> str:
    """``eval/terminalbench/ppo`` with our own agent, ``eval/terminalbench/terminus-2/ppo`` with another."""
    name = metric_name(model)
    return f"eval/{BENCH}/{name}" if harness == OURS else f"eval/{BENCH}/{harness}/{name}"


def _metrics(name: str, score: BenchScore) -> Iterator[tuple[str, float]]:
    yield name, score.value
    yield f"{name}_low", score.low
    yield f"{name}_high", score.high


def _rates(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Task -> share of its graded trials that passed."""
    found: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if row["outcome"] != Outcome.INFRA:
            found[row["task"]].append(row["outcome"] == Outcome.PASS)
    return {task: fmean(passed) for task, passed in found.items()}


def _score(
    model: str,
    harness: str,
    rows: list[dict[str, Any]],
    by_task: Mapping[str, float],
    *,
    role: str,
    level: float,
    seed: int,
) -> BenchScore:
    infra = sum(row["outcome"] == Outcome.INFRA for row in rows)
    values = list(by_task.values())
    interval = bootstrap_tasks(values, level, seed)
    return BenchScore(
        model=model,
        harness=harness,
        tasks=len(by_task),
        trials=len(rows) - infra,
        infra=infra,
        value=fmean(values),
        low=interval.low,
        high=interval.high,
        role=role,
    )
