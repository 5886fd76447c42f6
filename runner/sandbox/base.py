"""The seam between the house and a container engine.

A ``Backend`` builds an ``Image`` from a task's environment and opens ``Sandbox``es from it. A sandbox has one
persistent shell for the agent (``run``) and a way to execute a program the agent cannot touch (``exec``, used by the
grader after ``quiesce`` has ended every agent process). Nothing above this layer may assume Docker.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from runner.domain.task import Environment


class Role(StrEnum):
    """Who a program in the sandbox runs as."""

    AGENT = "agent"
    """uid 1000, no capabilities, no new privileges."""
    ROOT = "root"
    """The sandbox's own root, which the agent cannot become."""


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """What one command did."""

    output: bytes
    """stdout and stderr, interleaved as written, cut at the sandbox's byte limit."""
    exit_code: int | None
    """None when the command timed out or flooded its output and was killed."""
    seconds: float
    cwd: str = ""
    """The shell's working directory afterwards (shell commands only)."""
    timed_out: bool = False
    truncated: bool = False
    """The output passed the byte limit and the command was stopped."""
    restarted: bool = False
    """The shell had to be opened anew: variables and functions are lost, files and cwd are kept."""
    refused: str = ""
    """Why the command was not run at all (a NUL byte, say)."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A built environment, ready to be started many times."""

    reference: str
    """The backend's own name for it (an image id, a folder)."""
    environment: Environment


@dataclass(frozen=True, kw_only=True)
class BuildFailure:
    """The environment does not build, and it is the environment's fault."""

    log: str
    """The build's last lines, for the model and for people."""
    timed_out: bool = False


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Whether a backend can work on this machine."""

    ok: bool
    detail: str
    """What was found, in one line ("Docker 28.5 at unix:///..."); when not ok, what is missing."""
    remedy: str = ""
    """How to get it; empty when ok."""
    limits: Sequence[str] = field(default_factory=tuple)
    """What this backend does not enforce here, one line each."""


class Sandbox(Protocol):
    """One started environment."""

    def run(self, command: str, *, timeout: float) -> ExecResult:
        """Run ``command`` in the agent's persistent shell. Raises EngineError when the sandbox itself broke."""

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        """End every process the agent started, close its shell, keep the files. Raises EngineError.

        Kept alive are those that listen on one of ``keep_ports`` (TCP); what is executed as root afterwards must be
        safe from them. Where nobody listens, or it cannot be told, all end. Without ports, all end in any case.
        """

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        """Execute a program directly, without a shell and with an empty environment. Raises EngineError."""


class Backend(Protocol):
    """A way to make sandboxes."""

    name: str
    grader: Path
    """Where the read-only grader runtime is mounted inside every sandbox."""

    def probe(self) -> Probe:
        """Say whether it works here; never raises."""

    def build(self, environment: Environment, *, timeout: float) -> Image | BuildFailure:
        """Build an environment, or find it built. Raises EngineError for infrastructure trouble."""

    def start(self, image: Image) -> AbstractContextManager[Sandbox]:
        """Open a sandbox; leaving the context removes every trace of it. Raises EngineError."""

    def stop(self) -> None:
        """Open nothing more: who waits for a sandbox, or asks for one, gets an EngineError. Open ones go on.
        Idempotent; any thread may call it."""

    def close(self) -> None:
        """Remove what this process left: running sandboxes, pools. Idempotent."""

    def reap(self) -> int:
        """Remove sandboxes whose owner process is dead; returns how many. Touches nothing without our label."""

    def remove_image(self, image: Image) -> None:
        """Forget a built image that will not be used again. Never raises for one already gone."""
