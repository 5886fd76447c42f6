"""The parts of ``task.toml`` about services: Harbor's own ``[environment.healthcheck]``, and which ports grading keeps.

Harbor runs the health check after an environment's start, before the agent, as we do. It has no word for processes that
must live on while the tests run (there, all do), so the ports are ours: ``[metadata.endless] keep_ports = [8080]``.
"""

import math
from collections.abc import Mapping
from typing import Any

from runner.domain.errors import TaskFormatError
from runner.domain.task import HealthCheck

_NAMES = {
    "interval_sec": "interval_seconds",
    "timeout_sec": "timeout_seconds",
    "start_period_sec": "start_period_seconds",
    "start_interval_sec": "start_interval_seconds",
}
_HARBOR = {"interval_sec": 5.0, "timeout_sec": 30.0, "start_period_sec": 0.0, "start_interval_sec": 5.0}
_HARBOR_RETRIES = 3
"""What Harbor 0.26 takes where a healthcheck names none (``HealthcheckConfig``)."""
_PORTS = range(1, 65536)


def dump_health(check: HealthCheck) -> dict[str, Any]:
    """The table ``[environment.healthcheck]``."""
    numbers = {theirs: getattr(check, ours) for theirs, ours in _NAMES.items()}
    return {"command": check.command, **numbers, "retries": check.retries}


def health(table: Mapping[str, Any]) -> HealthCheck | None:
    """The health check of a parsed task.toml. Raises TaskFormatError."""
    section = table["environment"].get("healthcheck")
    if section is None:
        return None
    if not isinstance(section, dict) or not isinstance(section.get("command"), str) or not section["command"].strip():
        raise TaskFormatError("[environment.healthcheck] in task.toml must have a command, as text")
    numbers = {ours: _seconds(section, theirs) for theirs, ours in _NAMES.items()}
    retries = section.get("retries", _HARBOR_RETRIES)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 1:
        raise TaskFormatError(f"[environment.healthcheck] retries in task.toml must be 1 or more, not {retries!r}")
    return HealthCheck(command=section["command"], retries=retries, **numbers)


def keep_ports(mark: Mapping[str, Any] | None, *, script: bool) -> tuple[int, ...]:
    """The ports of ``[metadata.endless]``; ``script``: a script decides about the task. Raises TaskFormatError."""
    ports = mark.get("keep_ports", []) if mark else []
    if not isinstance(ports, list) or any(isinstance(port, bool) or port not in _PORTS for port in ports):
        raise TaskFormatError(f"keep_ports in task.toml must be a list of TCP ports, not {ports!r}")
    if ports and script:
        raise TaskFormatError(
            "keep_ports in task.toml needs a pytest file: tests/test.sh would run as root beside processes that can "
            "lead it to the tests and rewards"
        )
    return tuple(ports)


def _seconds(section: Mapping[str, Any], name: str) -> float:
    value = section.get(name, _HARBOR[name])
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
        raise TaskFormatError(f"[environment.healthcheck] {name} in task.toml must be seconds, not {value!r}")
    return float(value)
