"""Which tasks a benchmark has: a dataset of Harbor's registry, or a folder of Harbor tasks."""

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from runner.domain.plain import fingerprint
from runner.schema_evaluation import TerminalBench

SIZES = {("terminal-bench", "2.0"): 89}
"""(dataset, version) -> its number of tasks, of the published ones (https://www.tbench.ai)."""


def folder_of(bench: TerminalBench) -> Path | None:
    """Where its tasks are, if that is on this machine."""
    return None if bench.path is None else Path(bench.path).expanduser().absolute()


def task_folders(bench: TerminalBench) -> list[Path]:
    """The tasks of a folder that are wanted, by name; none where there is no such folder."""
    folder = folder_of(bench)
    found = [] if folder is None else sorted(path.parent for path in folder.glob("*/task.toml"))
    patterns = bench.tasks or ["*"]
    return [task for task in found if any(fnmatch(task.name, pattern) for pattern in patterns)]


def count_tasks(bench: TerminalBench) -> int | None:
    """How many tasks are wanted; None where only the registry knows."""
    if bench.path is not None:
        return len(task_folders(bench))
    return None if bench.tasks else SIZES.get((bench.dataset, str(bench.version)))


def tasks_identity(bench: TerminalBench) -> Any:
    """What tells these tasks from others: name, version and commit of a dataset; of a folder its content, wherever it
    is."""
    if bench.path is None:
        return [bench.dataset, bench.version, bench.commit, list(bench.tasks)]
    return {task.name: fingerprint(list(_content(task))) for task in task_folders(bench)}


def _content(task: Path) -> Iterator[list[str]]:
    root = task.resolve()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield [str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()]
