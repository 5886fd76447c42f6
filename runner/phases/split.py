"""The dataset's training and dev tasks, for the phases after it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from runner.domain.task import Task
from runner.store.tasks import read_task


def read_split(dataset: Path) -> dict[str, list[str]]:
    """``train``, ``dev`` and ``refused``: task ids, from a finished dataset phase."""
    found: dict[str, list[str]] = json.loads((dataset / "split.json").read_text(encoding="utf-8"))
    return found


def split_tasks(dataset: Path, ids: Iterable[str]) -> Iterator[Task]:
    """These tasks, read one by one."""
    return (read_task(dataset / "tasks" / task_id) for task_id in ids)
