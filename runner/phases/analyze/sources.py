"""Whose episodes there are: the solver's from the filter, every scored model's from the evaluation."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.domain.task import Labels
from runner.phases.evaluate.bench import OURS
from runner.phases.evaluate.dev import MODELS, SOLVER, episodes_file
from runner.phases.evaluate.names import last_policy, metric_name
from runner.phases.evaluate.terminalbench import BENCH
from runner.phases.filter.report import EPISODES
from runner.phases.generate.tasks import RECORDS
from runner.store.jsonl import read_lines


@dataclass(frozen=True, kw_only=True)
class Source:
    """Episodes of one model on one set of tasks."""

    key: str
    """``solver``, ``ppo``, ``ppo@40``, ``terminalbench/endless/ppo``."""
    title: str
    """For people."""
    path: Path

    @property
    def metric(self) -> str:
        """The key as part of a metric's name."""
        return metric_name(self.key)


def sources(upstream: Mapping[str, Path]) -> list[Source]:
    """Everything there is, in the order solver, dev, benchmark."""
    return [*_solver(upstream), *_dev(upstream), *_bench(upstream)]


def last_key(found: list[Source]) -> str:
    """What the recipe ends with: the last of its own policies; empty where it has none."""
    return last_policy([source.key for source in found])


def task_labels(upstream: Mapping[str, Path]) -> dict[str, Labels]:
    """Task -> its labels, of every task that a draw became."""
    if "generate" not in upstream:
        return {}
    rows = read_lines(upstream["generate"] / RECORDS)
    return {row["task_id"]: row["labels"] for row in rows if row["task_id"]}


def _solver(upstream: Mapping[str, Path]) -> Iterator[Source]:
    if "filter" in upstream:
        yield Source(key=SOLVER, title="solver, all tasks", path=upstream["filter"] / EPISODES)


def _dev(upstream: Mapping[str, Path]) -> Iterator[Source]:
    folder = upstream.get("evaluate")
    if folder is None or not (folder / MODELS).exists():
        return
    for row in json.loads((folder / MODELS).read_text(encoding="utf-8")):
        path = episodes_file(folder, row["name"])
        if path.exists():
            yield Source(key=row["name"], title=row["name"], path=path)


def _bench(upstream: Mapping[str, Path]) -> Iterator[Source]:
    folder = upstream.get("evaluate")
    if folder is None:
        return
    for path in sorted((folder / BENCH).glob(f"*/{OURS}*/episodes.jsonl")):
        model, harness = path.parts[-3], path.parts[-2]
        yield Source(key=f"{BENCH}/{harness}/{model}", title=f"{model}, TerminalBench", path=path)
