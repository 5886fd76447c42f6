"""``task.toml``: a task's settings in Harbor's names (schema 1.4), and what only we know below ``[metadata]``.

Harbor ignores metadata, so a folder that we write runs in Harbor unchanged; ``[metadata.endless]`` marks it as ours
and lets us read back exactly the task that was written. Folders made by others carry no such mark.
"""

import json
import math
import tomllib
from collections.abc import Mapping
from datetime import date, time
from typing import Any

import tomli_w

from runner.domain.errors import TaskFormatError
from runner.domain.task import AGENT_HOME, AGENT_USER, Limits, Task
from runner.store.harbor import services

SCHEMA_VERSION = "1.4"
_NEWEST_MAJOR = 1
_INT64 = 1 << 63


def dump(task: Task) -> str:
    """The text of a task's task.toml."""
    agent: dict[str, Any] = {"timeout_sec": task.limits.agent_seconds}
    environment: dict[str, Any] = {"build_timeout_sec": task.limits.build_seconds}
    if task.environment.context is None:
        # An image made by others may lack this user and home; Harbor then takes the image's own.
        agent["user"] = AGENT_USER
        environment |= {"network_mode": "no-network", "workdir": AGENT_HOME}
    if task.environment.health is not None:
        environment["healthcheck"] = services.dump_health(task.environment.health)
    table = {
        "schema_version": SCHEMA_VERSION,
        "metadata": _metadata(task),
        "agent": agent,
        "verifier": {"timeout_sec": task.limits.verifier_seconds, "user": "root"},
        "environment": environment,
    }
    return tomli_w.dumps(table)


def parse(text: str) -> dict[str, Any]:
    """The tables of a task.toml of schema 0.1 to 1.x. Raises TaskFormatError, naming what is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TaskFormatError(f"task.toml is not valid TOML: {error}") from error
    version = str(table.get("schema_version", table.get("version", "1.0")))
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) > _NEWEST_MAJOR:
        raise TaskFormatError(f"task.toml has schema_version {version!r}; this reads 0.1 to {SCHEMA_VERSION}")
    for section in ("metadata", "agent", "verifier", "environment"):
        if not isinstance(table.setdefault(section, {}), dict):
            raise TaskFormatError(f"[{section}] in task.toml is not a table")
    _refuse(table)
    return table


def _refuse(table: Mapping[str, Any]) -> None:
    """What newer schemas can ask for and we cannot give. Raises TaskFormatError."""
    if table.get("steps"):
        raise TaskFormatError("task.toml describes a multi-step task ([[steps]]); only single-step tasks can be read")
    verifier = table["verifier"]
    if verifier.get("environment") or verifier.get("environment_mode", "shared") != "shared":
        raise TaskFormatError(
            "its verifier runs in a container of its own ([verifier] environment); that cannot be run"
        )
    if verifier.get("collect"):
        raise TaskFormatError("[[verifier.collect]] in task.toml names hooks to run before grading; they cannot be run")
    if str(table["environment"].get("os", "linux")).lower() != "linux":
        raise TaskFormatError(f"[environment] os in task.toml is {table['environment']['os']!r}; only linux can be run")


def ours(table: Mapping[str, Any]) -> dict[str, Any] | None:
    """The mark of a folder that we wrote: ``id``, ``draw`` and ``environment``; None for others' folders."""
    mark = table["metadata"].get("endless")
    return mark if isinstance(mark, dict) else None


def limits(table: Mapping[str, Any]) -> Limits:
    """A task's limits in seconds, ours where it names none. Raises TaskFormatError."""
    default = Limits()
    return Limits(
        build_seconds=_seconds(table, "environment", "build_timeout_sec", default.build_seconds),
        verifier_seconds=_seconds(table, "verifier", "timeout_sec", default.verifier_seconds),
        agent_seconds=_seconds(table, "agent", "timeout_sec", default.agent_seconds),
    )


def labels(table: Mapping[str, Any]) -> dict[str, str]:
    """Our taxonomy labels; for others' tasks the category and difficulty that Harbor tasks usually name."""
    metadata = table["metadata"]
    if ours(table) is not None:
        return {str(name): str(value) for name, value in metadata.get("labels", {}).items()}
    return {name: metadata[name] for name in ("category", "difficulty") if isinstance(metadata.get(name), str)}


def provenance(table: Mapping[str, Any]) -> dict[str, Any]:
    """``Task.metadata``: what was written there, or everything that others say below ``[metadata]``."""
    metadata = table["metadata"]
    if ours(table) is None:
        return {name: _json_value(value) for name, value in metadata.items()}
    encoded = metadata.get("provenance_json", {})
    return dict(metadata.get("provenance", {})) | {name: json.loads(value) for name, value in encoded.items()}


def _metadata(task: Task) -> dict[str, Any]:
    kind = "setup" if task.environment.context is None else "context"
    plain = {name: value for name, value in task.metadata.items() if _fits_toml(value)}
    encoded = {name: json.dumps(value) for name, value in task.metadata.items() if name not in plain}
    draw = {} if task.draw is None else {"draw": task.draw}
    verifier: dict[str, Any] = {"verifier": "script"} if task.verifier_script else {}
    if task.test_files:
        verifier["test_files"] = sorted(task.test_files)
    if task.keep_ports:
        verifier["keep_ports"] = list(task.keep_ports)
    # category and tags are where other tools look for what a task is about.
    category = {"category": task.labels["category"]} if "category" in task.labels else {}
    return {
        **category,
        "tags": list(dict.fromkeys([*task.labels.values(), *_tags(task)])),
        "labels": dict(task.labels),
        "endless": {"id": task.id, **draw, "environment": kind, **verifier},
        "provenance": plain,
        **({"provenance_json": encoded} if encoded else {}),
    }


def _tags(task: Task) -> list[str]:
    """The tags that an imported task came with."""
    tags = task.metadata.get("tags", [])
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list | tuple) else []


def _fits_toml(value: Any) -> bool:
    """Whether TOML can hold a JSON value: it has no null and, portably, no integer beyond 64 bits."""
    if isinstance(value, Mapping):
        return all(_fits_toml(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_fits_toml(item) for item in value)
    if isinstance(value, int):
        return -_INT64 <= value < _INT64
    return value is not None


def _seconds(table: Mapping[str, Any], section: str, key: str, default: float) -> float:
    value = table[section].get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise TaskFormatError(f"[{section}] {key} in task.toml must be a positive number of seconds, not {value!r}")
    return float(value)


def _json_value(value: Any) -> Any:
    """A TOML value as JSON: dates and times become ISO text."""
    if isinstance(value, dict):
        return {name: _json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return value.isoformat() if isinstance(value, date | time) else value
