"""One started local sandbox: the agent's shell in it, and programs executed beside the agent."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import EngineError
from runner.domain.task import AGENT_HOME, Environment
from runner.sandbox import services
from runner.sandbox.advice import KILLED
from runner.sandbox.base import BuildFailure, ExecResult, Role
from runner.sandbox.local.nursery import Stage
from runner.sandbox.local.process import Process, Program
from runner.sandbox.reading import collect
from runner.sandbox.shell import AGENT_ENV, Shell

log = logging.getLogger(__name__)

HELPER_SECONDS = 20.0
GRADER = Path("/opt/endless-grader")
"""Where ``inside/tree.py`` shows the grader's Python."""


class LocalSandbox:
    """See ``base.Sandbox``. Used by one thread at a time."""

    def __init__(self, stage: Stage, *, limits: dict[str, int], output_bytes: int) -> None:
        """``limits`` are resource limits of every process; ``output_bytes`` caps one program's output."""
        self._stage, self._limits, self._output_bytes = stage, limits, output_bytes
        self._agent_space: int | None = None
        self._shell = Shell(
            open=self._open, execute=self._execute, limit=output_bytes, home=AGENT_HOME, purge=self._end_agent
        )

    def run(self, command: str, *, timeout: float) -> ExecResult:
        """See ``base.Sandbox.run``."""
        return self._shell.run(command, timeout)

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        """See ``base.Sandbox.quiesce``: the agent's process namespace ends, and everything in it, unless something is
        to be kept there."""
        self._shell.close()
        if self._agent_space is None or (keep_ports and services.keep(keep_ports, GRADER, self._as_root)):
            return
        self._end_agent()

    def _end_agent(self) -> None:
        """End the agent's process namespace, if it was opened."""
        if self._agent_space is not None:
            space, self._agent_space = self._agent_space, None
            self._stage.close_space(space)

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        """See ``base.Sandbox.exec``. A program as root has a process namespace of its own, which ends with it. One as
        the agent shares the shell's; if it overruns its time or output, all processes of the agent end with it.
        Raises EngineError, also when the program does not exist."""
        began = time.monotonic()
        agent = role is Role.AGENT
        program = Program(argv=argv, agent=agent, env={"PATH": AGENT_ENV["PATH"]}, cwd=cwd, limits=self._limits)
        with _file(stdin) as source:
            if agent:
                code, output, stop = self._run_out(self._agent(), program, source, timeout)
                if stop:
                    self.quiesce()
            else:
                space = self._stage.open_space()
                try:
                    code, output, stop = self._run_out(space, program, source, timeout)
                finally:
                    self._stage.close_space(space)
        seconds = time.monotonic() - began
        return ExecResult(
            output=output, exit_code=code, seconds=seconds, timed_out=stop == "time", truncated=stop == "flood"
        )

    def serve(self, environment: Environment) -> BuildFailure | None:
        """Start a task's services, wait until they are healthy; None is success. Raises EngineError."""
        run = lambda command, seconds: self.run(command, timeout=seconds)  # noqa: E731
        return services.serve(environment, execute=self._as_agent, run=run)

    def open_shell(self) -> None:
        """Open the agent's shell before its first command, unless that fails. Nothing of the agent's runs in it yet."""
        self._shell.open()

    def close(self) -> None:
        """Let go of the shell; whoever made the stage ends it."""
        self._shell.close()

    def _agent(self) -> int:
        """The agent's process namespace."""
        if self._agent_space is None:
            self._agent_space = self._stage.open_space()
        return self._agent_space

    def _run_out(self, space: int, program: Program, stdin: int, timeout: float) -> tuple[int | None, bytes, str]:
        """Exit code, output, and why it was stopped, if it was."""
        process = self._stage.start(space, program, stdin=stdin)
        try:
            output, stop = collect(process, timeout, self._output_bytes)
            code = None if stop else process.exit_code()
        finally:
            process.close()
        if code is None and not stop:
            raise EngineError(f"The sandbox ended while {program.argv[0]} ran in it. {KILLED}")
        return code, output, stop

    def _open(self, argv: Sequence[str], cwd: str | None) -> Process:
        """The shell's transport. Where the agent's processes have used up their number, they end first."""
        program = Program(argv=argv, agent=True, env=AGENT_ENV, cwd=cwd or "/", limits=self._limits)
        try:
            return self._stage.start(self._agent(), program)
        except EngineError as error:
            log.debug("opening a shell failed, ending the agent's processes: %s", error)
            self.quiesce()
            return self._stage.start(self._agent(), program)

    def _execute(self, argv: Sequence[str]) -> None:
        """A helper of the shell's. As root, so that the agent's processes cannot keep it from starting or from killing
        them; it is bash from the system's folders, with an environment of ours."""
        self._as_root(argv, HELPER_SECONDS)

    def _as_agent(self, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
        """Beside the agent's shell, with its environment. A program that overruns lives on."""
        program = Program(argv=argv, agent=True, env=AGENT_ENV, cwd=AGENT_HOME, limits=self._limits)
        return self._beside(program, seconds)

    def _as_root(self, argv: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
        return self._beside(Program(argv=argv, agent=False, env={"PATH": AGENT_ENV["PATH"]}), seconds)

    def _beside(self, program: Program, seconds: float) -> tuple[int | None, bytes]:
        """Exit code and output of a program in the agent's process namespace."""
        with _file(b"") as source:
            code, output, _ = self._run_out(self._agent(), program, source, seconds)
        return code, output


@contextmanager
def _file(content: bytes) -> Iterator[int]:
    """A descriptor of a file in memory, at its start."""
    descriptor = os.memfd_create("stream") if content else os.open(os.devnull, os.O_RDONLY)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if content:
            os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
