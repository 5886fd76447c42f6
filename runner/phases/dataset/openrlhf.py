"""OpenRLHF's prompt data: one JSON object a line with chat messages and the task's id as label.

Read it with ``--data.input_key input --data.label_key label --data.apply_chat_template``. The label is how the
trainer's executor finds the task to build and grade; truth, tests and solutions stay out.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from runner.domain.task import Task
from runner.llm.base import Message
from runner.phases.dataset.text import printable
from runner.store.jsonl import storage_errors

Render = Callable[[Task], Sequence[Message]]
"""A task's opening messages: the same system and user prompt that the agent harness sends."""


def export_openrlhf(tasks: Iterable[Task], path: Path, render: Render) -> int:
    """Write ``path`` (a .jsonl file) anew, whole or not at all; returns the number of prompts. Raises StorageError."""
    scratch = path.with_name(f".{path.name}.partial")
    count = 0
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with scratch.open("w", encoding="utf-8") as file:
                for task in tasks:
                    file.write(json.dumps(_row(task, render), ensure_ascii=False) + "\n")
                    count += 1
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    return count


def _row(task: Task, render: Render) -> dict[str, Any]:
    return {
        "input": [{"role": message.role, "content": printable(message.content)} for message in render(task)],
        "label": task.id,
        "datasource": "endless",
        "labels": {printable(name): printable(value) for name, value in sorted(task.labels.items())},
    }
