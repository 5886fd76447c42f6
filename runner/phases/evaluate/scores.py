"""What attempts say about a model, and about two models on the same tasks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from runner.analysis.statistics import bootstrap_tasks, paired, wilson
from runner.domain.episode import EndReason, Outcome
from runner.domain.plain import plain
from runner.domain.task import Labels
from runner.phases.summary import EpisodeFacts, TaskSummary, summarise

Facts = Iterable[EpisodeFacts]
Row = dict[str, Any]


def score(facts: Facts, labels: Mapping[str, Labels], *, samples: int, level: float, seed: int) -> Row:
    """One model's scores over the tasks in ``labels``, of which each was to have ``samples`` attempts.

    Attempts lost to infrastructure are counted and in no rate.

    ``pass_at``: k -> the mean over tasks of the unbiased estimate, with a bootstrap interval over tasks;
    ``pass_rate``: of all graded attempts together, with Wilson's interval, which takes them for independent.
    """
    rows = list(facts)
    tasks = _by_task(rows, labels)
    graded = [row for row in rows if row.outcome is not Outcome.INFRA]
    passes = sum(row.outcome is Outcome.PASS for row in graded)
    wanted = max(len(rows), samples * len(labels))
    return {
        "tasks": sum(task.episodes > 0 for task in tasks),
        "episodes": len(graded),
        "passes": passes,
        "infra": wanted - len(graded),
        "infra_rate": (wanted - len(graded)) / wanted if wanted else 0.0,
        "time_limit_rate": _share(row.end == EndReason.TIME_LIMIT for row in graded),
        "mean_turns": fmean(row.turns for row in graded) if graded else 0.0,
        "mean_seconds": fmean(row.seconds for row in graded) if graded else 0.0,
        "pass_rate": _rate(passes, len(graded), level),
        "pass_at": {str(k): _pass_at(tasks, k, level, seed) for k in range(1, samples + 1) if _counts(tasks, k)},
        "per_task": {task.task_id: task.pass_rate for task in tasks if task.episodes},
        "labels": _labels(tasks, labels, level),
    }


def compare(before: str, after: str, scores: Mapping[str, Row], *, level: float, seed: int) -> Row:
    """Two models on the tasks that both have graded attempts of: the difference of pass@1, after less before."""
    difference = paired(scores[before]["per_task"], scores[after]["per_task"], level=level, seed=seed)
    return {"before": before, "after": after, **plain(difference)}


def best(scores: Mapping[str, Row], names: Sequence[str]) -> str:
    """The highest pass@1; of equal ones the latest in ``names``, trained longest. Empty when nothing is scored."""
    scored = [name for name in names if "1" in scores[name]["pass_at"]]
    return max(reversed(scored), key=lambda name: float(scores[name]["pass_at"]["1"]["value"]), default="")


def _by_task(rows: Facts, labels: Mapping[str, Labels]) -> list[TaskSummary]:
    found: dict[str, list[EpisodeFacts]] = defaultdict(list)
    for row in rows:
        found[row.task_id].append(row)
    return [summarise(task, found[task], None) for task in sorted(labels)]


def _counts(tasks: Sequence[TaskSummary], k: int) -> list[TaskSummary]:
    return [task for task in tasks if task.episodes >= k]


def _pass_at(tasks: Sequence[TaskSummary], k: int, level: float, seed: int) -> Row:
    values = [task.pass_at(k) for task in _counts(tasks, k)]
    interval = bootstrap_tasks(values, level, seed)
    return {"value": fmean(values), "low": interval.low, "high": interval.high, "tasks": len(values)}


def _rate(passes: int, n: int, level: float) -> Row:
    interval = wilson(passes, n, level)
    return {"value": passes / n if n else 0.0, "low": interval.low, "high": interval.high}


def _labels(tasks: Sequence[TaskSummary], labels: Mapping[str, Labels], level: float) -> dict[str, dict[str, Row]]:
    """Dimension -> value -> passes among its attempts."""
    counts: dict[str, dict[str, list[TaskSummary]]] = defaultdict(lambda: defaultdict(list))
    for task in tasks:
        for dimension, value in labels[task.task_id].items():
            counts[dimension][value].append(task)
    return {
        dimension: {value: _label(found, level) for value, found in sorted(values.items())}
        for dimension, values in sorted(counts.items())
    }


def _label(tasks: Sequence[TaskSummary], level: float) -> Row:
    passes, episodes = sum(task.passes for task in tasks), sum(task.episodes for task in tasks)
    return {"tasks": len(tasks), "episodes": episodes, "passes": passes, **_rate(passes, episodes, level)}


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return sum(found) / len(found) if found else 0.0
