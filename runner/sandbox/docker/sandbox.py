"""One started container: the agent's shell in it, and programs executed beside the agent."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.domain.errors import EngineError, EngineGone
from runner.domain.task import AGENT_HOME, Environment
from runner.sandbox import services
from runner.sandbox.advice import OTHER_IMAGE, STOPPED
from runner.sandbox.base import BuildFailure, ExecResult, Role
from runner.sandbox.docker.attached import Attached
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.grader import MOUNT
from runner.sandbox.reading import collect
from runner.sandbox.shell import AGENT_ENV, Shell

if TYPE_CHECKING:
    from docker.models.containers import Container

log = logging.getLogger(__name__)

USERS = {Role.AGENT: "1000:1000", Role.ROOT: "0:0"}
HELPER_SECONDS = 20.0
RESTART_SECONDS = 10
"""How long a container's first process may take to end when it is asked to. It ends at once, and Docker must have the
time to see it: where it kills a process that has ended in between, it notes to look again ten seconds later, and then
takes a container that was restarted meanwhile for one that has ended (``killWithSignal`` in its daemon/kill.go). An
episode loses its programs, and the container outlives its removal. Podman's first process is a bash, which does not
end when it is asked to."""
NOT_STARTED = (b"OCI runtime exec failed", b"Error: runc:", b"Error: crun:")
"""How Docker and Podman say, on the program's own stream, that there is no such program or folder."""


class DockerSandbox:
    """See ``base.Sandbox``. Used by one thread at a time."""

    def __init__(self, engine: Engine, container: "Container", limit: int, config: Mapping[str, Any]) -> None:
        """``container`` runs; ``limit`` caps one program's output in bytes; ``config`` is what the image says about its
        containers (``containers.Configs``)."""
        self._engine, self._container, self._limit = engine, container, limit
        self._id = str(container.id)
        image_env = dict(line.partition("=")[::2] for line in config.get("Env") or [])
        # An image may add to PATH and set variables of its own; a program beside the agent gets none of them.
        self._agent_env = {**AGENT_ENV, "PATH": image_env.get("PATH", AGENT_ENV["PATH"])}
        self._no_env = dict.fromkeys(image_env, "") | {"PATH": AGENT_ENV["PATH"]}
        self._folder = config.get("WorkingDir") or AGENT_HOME
        self._touched = False
        self._shell = Shell(
            open=self._open,
            execute=self._execute,
            limit=limit,
            home=AGENT_HOME,
            start=self._folder,
            purge=self._restart,
        )

    def run(self, command: str, *, timeout: float) -> ExecResult:
        """See ``base.Sandbox.run``."""
        self._touched = True
        return self._shell.run(command, timeout)

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        """See ``base.Sandbox.quiesce``: the container restarts, which nothing in it survives, unless services
        are to be kept."""
        self._shell.close()
        if self._touched and not (keep_ports and services.keep(keep_ports, Path(MOUNT), self._as_root)):
            if keep_ports:
                self._refuse_stopped()
            self._restart()
            self._touched = False

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        """See ``base.Sandbox.exec``. A program that overruns its time or output ends with everything else in the
        container: it restarts. Raises EngineError, also when the program does not exist."""
        began = time.monotonic()
        self._touched |= role is Role.AGENT
        attached = self._attach(argv, USERS[role], cwd, self._no_env, stdin=bool(stdin))
        try:
            if stdin:
                self._feed(attached, stdin)
            output, stop = collect(attached, timeout, self._limit)
            code = None if stop else attached.exit_code()
        finally:
            attached.close()
        if stop:
            self._shell.close()
            self._restart()
        if code in (126, 127) and output.startswith(NOT_STARTED):
            said = output.decode("utf-8", "replace").strip()
            raise EngineError(f"{argv[0]} could not be executed in the container: {said}. {OTHER_IMAGE}")
        seconds = time.monotonic() - began
        return ExecResult(
            output=output, exit_code=code, seconds=seconds, timed_out=stop == "time", truncated=stop == "flood"
        )

    def serve(self, environment: Environment) -> BuildFailure | None:
        """Start a task's services, wait until they are healthy; None is success. Raises EngineError."""
        self._touched = True
        run = lambda command, seconds: self.run(command, timeout=seconds)  # noqa: E731
        return services.serve(environment, execute=self._as_agent, run=run)

    def open_shell(self) -> None:
        """Open the agent's shell before its first command, unless that fails. Nothing of the agent's runs in it yet."""
        self._shell.open()

    def close(self) -> None:
        """Let go of the shell; whoever made the container removes it."""
        self._shell.close()

    def _open(self, argv: Sequence[str], cwd: str | None) -> Attached:
        """The shell's transport. Where the container is full of processes, or died of them, it restarts first."""
        try:
            return self._attach(argv, USERS[Role.AGENT], cwd or "/", self._agent_env)
        except EngineGone:
            raise
        except EngineError as error:
            self._refuse_stopped()
            log.debug("opening a shell failed, restarting the container: %s", str(error))
            self._restart()
            return self._attach(argv, USERS[Role.AGENT], cwd or "/", self._agent_env)

    def _execute(self, argv: Sequence[str]) -> None:
        self._as_agent(argv, HELPER_SECONDS, cwd="/")

    def _as_agent(self, argv: Sequence[str], seconds: float, *, cwd: str = "") -> tuple[int | None, bytes]:
        """Beside the agent's shell, with its environment. A program that overruns lives on."""
        attached = self._attach(argv, USERS[Role.AGENT], cwd or self._folder, self._agent_env, stdin=False)
        try:
            output, stop = collect(attached, seconds, self._limit)
            return None if stop else attached.exit_code(), output
        finally:
            attached.close()

    def _as_root(self, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
        result = self.exec(argv, role=Role.ROOT, timeout=seconds)
        return result.exit_code, result.output

    def _attach(
        self, argv: Sequence[str], user: str, cwd: str, env: Mapping[str, str], *, stdin: bool = True
    ) -> Attached:
        return Attached(self._engine, self._id, argv, user=user, cwd=cwd, env=env, stdin=stdin)

    def _feed(self, attached: Attached, stdin: bytes) -> None:
        try:
            attached.send(stdin)
        except OSError as error:
            log.debug("a program did not read all of its input: %s", str(error))
        attached.finish()

    def _refuse_stopped(self) -> None:
        """Raise EngineError where somebody else stopped the container: its daemon, when that restarted. What ran in it
        is lost, and must not be the agent's loss. If memory ran out in it, however, that was the agent's doing."""
        with self._engine.trouble("look at a container"):
            state = self._engine.client.api.inspect_container(self._id)["State"]
        if not state["Running"] and not state.get("OOMKilled"):
            raise EngineError(f"A container was stopped from outside in mid-episode. {STOPPED}")

    def _restart(self) -> None:
        with self._engine.turn(), self._engine.trouble("restart a container"):
            self._container.restart(timeout=0 if self._engine.podman else RESTART_SECONDS)
