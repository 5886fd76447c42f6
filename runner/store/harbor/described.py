"""``task.json``: how the paper's authors describe a task, in native folders and inside Harbor build contexts.

It holds the hidden truth, so nothing but its labels goes anywhere that an agent or a reader of an export may look.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.domain.errors import TaskFormatError
from runner.store.harbor.text import optional

IN_CONTEXT = "environment/task.json"
_LABELS = ("category", "complexity", "scenario", "difficulty", "domain")


@dataclass(frozen=True, kw_only=True)
class Described:
    """What a ``task.json`` says; everything is empty where there is none."""

    description: str = ""
    truth: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read(path: Path) -> Described:
    """Raises TaskFormatError for a file that is not a JSON object."""
    name = IN_CONTEXT if path.parent.name == "environment" else path.name
    text = optional(path.parent, path.name)
    if text is None:
        return Described()
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise TaskFormatError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise TaskFormatError(f"{name} is not a JSON object")
    tags = [tag for tag in value["tags"] if isinstance(tag, str)] if isinstance(value.get("tags"), list) else []
    return Described(
        description=_text(value.get("description", "")),
        truth=_text(value.get("truth", "")),
        labels={label: value[label] for label in _LABELS if isinstance(value.get(label), str)},
        metadata={"tags": tags} if tags else {},
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
