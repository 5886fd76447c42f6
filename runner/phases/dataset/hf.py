"""A Hugging Face dataset: a parquet file a split and a card that says what the columns are.

``datasets.load_dataset(FOLDER)`` reads it. The setup script, both tests and the oracle are part of it, for without
them nobody can run or study the tasks; the hidden truth is left out unless asked for, since the published file is
what later models may be trained on.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from runner.domain.task import Task
from runner.phases.dataset.text import printable
from runner.store.jsonl import storage_errors, write_text

_BATCH = 500
"""Tasks in memory at once, and rows a parquet row group."""

COLUMNS = {
    "id": "the task's id",
    "instruction": "what the agent is asked to do",
    "setup": "bash, run as root when the sandbox is built (empty for tasks with a Dockerfile of their own)",
    "start": "bash, run as the agent's user before it begins: services; often empty",
    "health": "bash, tried until it succeeds before the agent begins; often empty",
    "dockerfile": "an imported task's own Dockerfile, else empty; other files of its build context are not included",
    "initial_test": "a pytest file that passes on the untouched environment",
    "final_test": "a pytest file that passes only when the task is solved; empty where verifier_script decides",
    "verifier_script": "an imported task's tests/test.sh, which writes a reward; files beside it are not included",
    "keep_ports": "JSON list: the agent's processes that listen on these TCP ports live on while the test runs",
    "solution": "a bash script that solves the task, when there is one",
    "truth": "the hidden ground truth that the final test was written from",
    "labels": "JSON object: the taxonomy's dimensions and this task's values",
    "metadata": "JSON object: provenance and solver pass rates",
}
_LIMITS = {
    "build_seconds": "limit of building the sandbox, in seconds",
    "verifier_seconds": "limit of the final test, in seconds",
    "agent_seconds": "limit of one attempt, in seconds",
}


def export_hf(splits: Mapping[str, Iterable[Task]], folder: Path, *, truth: bool = False) -> dict[str, int]:
    """Write ``folder``; returns the number of tasks a split. Raises StorageError."""
    counts = {}
    labels: Counter[tuple[str, str]] = Counter()
    for name, tasks in splits.items():
        path = folder / "data" / f"{name}-00000-of-00001.parquet"
        counts[name] = _write_parquet(path, _rows(tasks, truth, labels), truth)
    write_text(folder / "README.md", _card(counts, labels, truth))
    return counts


def _rows(tasks: Iterable[Task], truth: bool, labels: Counter[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for task in tasks:
        labels.update(task.labels.items())
        yield _row(task, truth)


def _row(task: Task, truth: bool) -> dict[str, Any]:
    context = task.environment.context
    texts = {
        "id": task.id,
        "instruction": task.instruction,
        "setup": task.environment.setup,
        "start": task.environment.start,
        "health": task.environment.health.command if task.environment.health else "",
        "dockerfile": (context / "Dockerfile").read_text("utf-8", "replace") if context else "",
        "initial_test": task.initial_test,
        "final_test": task.final_test,
        "verifier_script": task.verifier_script,
        "keep_ports": json.dumps(task.keep_ports),
        "solution": task.solution,
        **({"truth": task.truth} if truth else {}),
        "labels": json.dumps(dict(task.labels)),
        "metadata": json.dumps(dict(task.metadata)),
    }
    limits = {name: getattr(task.limits, name) for name in _LIMITS}
    return {name: printable(text) for name, text in texts.items()} | limits


def _columns(truth: bool) -> dict[str, str]:
    return {name: meaning for name, meaning in COLUMNS.items() if truth or name != "truth"}


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]], truth: bool) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [(name, pa.string()) for name in _columns(truth)] + [(name, pa.float64()) for name in _LIMITS]
    schema = pa.schema(fields)
    scratch = path.with_name(f".{path.name}.partial")
    count = 0
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with pq.ParquetWriter(scratch, schema) as writer:
                while batch := list(islice(rows, _BATCH)):
                    writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                    count += len(batch)
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    return count


def _card(counts: Mapping[str, int], labels: Counter[tuple[str, str]], truth: bool) -> str:
    files = "\n".join(f"      - split: {name}\n        path: data/{name}-*.parquet" for name in counts)
    columns = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in (_columns(truth) | _LIMITS).items())
    sizes = ", ".join(f"{count:,} in `{name}`" for name, count in counts.items())
    hidden = "" if truth else "The hidden ground truth is not part of this export.\n"
    return f"""---
configs:
  - config_name: default
    data_files:
{files}
tags:
  - terminal
  - agents
  - reinforcement-learning
---
# Terminal tasks

Tasks for terminal agents: {sizes}. Each has an environment that builds, a test that passes on the untouched
environment and a test that fails there and passes only when the task is solved.
{hidden}
| column | meaning |
|---|---|
{columns}

{_label_table(labels)}
Do not train on the tests or solutions of tasks that you evaluate on.
"""


def _label_table(labels: Counter[tuple[str, str]]) -> str:
    if not labels:
        return ""
    rows = "\n".join(f"| {_cell(name)} | {_cell(value)} | {n} |" for (name, value), n in sorted(labels.items()))
    return f"| dimension | value | tasks |\n|---|---|---|\n{rows}\n"


def _cell(text: str) -> str:
    return " ".join(printable(text).split()).replace("|", "\\|")
