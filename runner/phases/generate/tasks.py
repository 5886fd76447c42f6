"""Where the generate phase leaves its tasks, for the phases after it."""

from collections.abc import Iterator
from pathlib import Path

from runner.phases.generate.reasons import Reason
from runner.store.jsonl import read_lines

RECORDS = "records.jsonl"
"""One line a draw, in order, once the phase is whole."""


def task_folder(root: Path, task_id: str) -> Path:
    """Where the phase keeps a task: shards of a thousand."""
    return root / "tasks" / task_id[:3] / task_id


def kept_tasks(root: Path) -> Iterator[Path]:
    """The folders of a finished phase's tasks, in draw order."""
    for row in read_lines(root / RECORDS):
        if row["reason"] == Reason.KEPT:
            yield task_folder(root, row["task_id"])
