"""What a finished filter phase tells: pass@k for every k, kept tasks, how episodes ended, cost."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from runner.domain.episode import EndReason, Episode, Outcome
from runner.llm.base import Usage
from runner.phases.base import Spend
from runner.phases.spending import spend_metrics
from runner.schema import Config
from runner.store.episodes import read_episodes
from runner.store.jsonl import read_lines
from runner.tracking.base import DatasetRef, PhaseReport

EPISODES = "episodes.jsonl"
TASKS = "tasks.jsonl"
"""One line a task, in order, once the phase is whole: its summary and whether it is kept."""


def report(config: Config, folder: Path, fingerprint: str) -> PhaseReport:
    tasks = list(read_lines(folder / TASKS))
    kept = [task for task in tasks if task["kept"]]
    ends: Counter[str] = Counter()
    for task in tasks:
        ends.update(task["ends"])
    metrics = {
        "filter/tasks": float(len(tasks)),
        "filter/kept": float(len(kept)),
        "filter/keep_rate": len(kept) / len(tasks) if tasks else 0.0,
        "filter/episodes": float(sum(task["episodes"] for task in tasks)),
        "filter/infra": float(sum(task["infra"] for task in tasks)),
        "filter/mean_turns": fmean(task["mean_turns"] for task in tasks) if tasks else 0.0,
        **{f"filter/{name}": value for name, value in pass_at_k_curve(tasks).items()},
        **spend_metrics("filter", config.models.solver, config.prices, _spent(folder)),
        **{f"filter/end/{end}": float(ends[end]) for end in EndReason},
    }
    return PhaseReport(
        phase="filter",
        fingerprint=fingerprint,
        folder=folder,
        metrics=metrics,
        tables={"tasks": [_row(task) for task in tasks], "attrition": attrition(tasks)},
        artifacts=[folder / TASKS],
        episodes=sample_episodes(folder, config.tracking.episode_traces),
        datasets=[DatasetRef(name="solvable", digest=fingerprint, source=folder / TASKS, rows=len(kept))],
    )


def pass_at_k_curve(tasks: list[dict[str, Any]]) -> dict[str, float]:
    """``pass_at_<k>``: the mean over all tasks that have k graded episodes, for every k that some task has."""
    ks = sorted({int(k) for task in tasks for k in task["pass_at"]})
    return {f"pass_at_{k}": fmean(t["pass_at"][str(k)] for t in tasks if str(k) in t["pass_at"]) for k in ks}


def attrition(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per reason: kept, or the predicates a task failed."""
    counts = Counter("kept" if task["kept"] else "not " + " and not ".join(task["failed"]) for task in tasks)
    rows = [{"reason": r, "tasks": n, "share": round(n / len(tasks), 4)} for r, n in counts.most_common()]
    return sorted(rows, key=lambda row: row["reason"] != "kept")


def sample_episodes(folder: Path, count: int) -> list[Episode]:
    """A sample worth looking at: as many passes as failures, different tasks first. Deterministic."""
    if count <= 0:
        return []
    first_seen: dict[tuple[str, Outcome], Episode] = {}
    for episode in read_episodes(folder / EPISODES):
        key = (episode.task_id, episode.outcome)
        if key not in first_seen or episode.sample < first_seen[key].sample:
            first_seen[key] = episode
    ordered = sorted(first_seen.values(), key=lambda e: e.id)
    passes = [e for e in ordered if e.outcome is Outcome.PASS]
    fails = [e for e in ordered if e.outcome is not Outcome.PASS]
    half = min(len(passes), max(count // 2, count - len(fails)))
    return passes[:half] + fails[: count - half]


def _spent(folder: Path) -> Iterator[Spend]:
    for row in read_lines(folder / EPISODES):
        turns = row["turns"]
        yield Spend(
            calls=len(turns),
            usage=Usage(
                input_tokens=sum(t["input_tokens"] for t in turns),
                output_tokens=sum(t["output_tokens"] for t in turns),
                cached_tokens=sum(t["cached_tokens"] for t in turns),
            ),
        )


def _row(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": task["task_id"],
        "kept": task["kept"],
        "passes": task["passes"],
        "episodes": task["episodes"],
        "pass_at_1": round(task["pass_rate"], 4),
        "mean_turns": round(task["mean_turns"], 2),
        "ends": ", ".join(f"{end} {count}" for end, count in task["ends"].items()),
    }
