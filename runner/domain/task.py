"""A task: what an agent is asked to do, where, and how the result is checked. Made once, then frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from runner.domain.plain import later

AGENT_USER = "user"
"""The login name of the agent inside every sandbox; its uid and gid are 1000, its home is ``AGENT_HOME``."""

AGENT_HOME = "/home/user"

Labels = Mapping[str, str]
"""One value per taxonomy dimension: ``{"category": "log analysis", ...}``."""


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """When a sandbox is ready for the agent: a command that is tried until it succeeds. As in Harbor's task.toml."""

    command: str
    """Bash, run as the agent's user in the agent's shell (in a subshell); healthy when it exits with 0."""
    interval_seconds: float = 0.5
    """Pause after a failure."""
    timeout_seconds: float = 10.0
    """Of one try."""
    start_period_seconds: float = 0.0
    """For so long after the start failures do not count."""
    start_interval_seconds: float = 0.5
    """Pause after a failure in the start period."""
    retries: int = 60
    """So many failures in a row are the end."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """How a task's sandbox is made. Either our own ``setup`` script or an imported Docker build context."""

    setup: str = ""
    """Bash, run as root at build time on top of the base image; files below the home end up owned by the agent."""

    start: str = ""
    """Bash, run as the agent's user before the agent's shell opens: services and background processes. May be empty."""

    health: HealthCheck | None = later(None)
    """Tried after ``start``: when the environment is built (its failure is then the environment's fault) and before
    every episode."""

    context: Path | None = None
    """An imported task's own build context (a folder with a ``Dockerfile``). Needs a backend that can build one."""

    @property
    def has_services(self) -> bool:
        """Whether there is something to do in a new sandbox before an agent may have it."""
        return bool(self.start) or self.health is not None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A task's own limits; seconds are wall-clock."""

    build_seconds: float = 180.0
    verifier_seconds: float = 60.0
    agent_seconds: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """One verified task.

    ``truth`` is privileged: it never enters an image, a build context or an agent's prompt. So are both tests until
    the agent's processes are gone.
    """

    id: str
    instruction: str
    environment: Environment
    final_test: str
    """A pytest file that passes only when the task is solved; empty where ``verifier_script`` decides."""
    verifier_script: str = ""
    """An imported Harbor task's ``tests/test.sh``, where it has no pytest file: a script that writes a reward."""
    test_files: Mapping[str, bytes] = field(default_factory=dict)
    """What else lies beside an imported task's tests, data say: path relative to the tests -> content. Privileged."""
    initial_test: str = ""
    """A pytest file that passes on the untouched environment; empty for imported tasks without one."""
    truth: str = ""
    keep_ports: tuple[int, ...] = ()
    """TCP ports. Grading lives with the agent's processes that listen on one of them, and ends all others of the
    agent's; empty, as a rule: all end. For pytest files only."""
    solution: str = ""
    """A bash script that solves the task (an oracle), or empty."""
    labels: Labels = field(default_factory=dict)
    limits: Limits = Limits()
    draw: int | None = None
    """The index of the taxonomy draw it came from; None for imported tasks."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Provenance: seed, generator, fingerprints, pass rates. JSON values only."""

    @property
    def slot(self) -> str:
        """The task's part of a journal slot: its draw when it has one, else its id."""
        return self.id if self.draw is None else f"{self.draw:06d}"


_HIDDEN = ("test_*.py", "test.sh", "tests", "solve.sh", "solution", "private")


def is_private(name: str, dockerfile: str) -> bool:
    """Whether a name at the top of an imported build context must not enter a build.

    That is the description that holds the truth, and tests and solutions that lie beside the Dockerfile, unless the
    Dockerfile itself names them (a task about somebody's tests, say).
    """
    return name == "task.json" or (any(fnmatchcase(name, hidden) for hidden in _HIDDEN) and name not in dockerfile)
