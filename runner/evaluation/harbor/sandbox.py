"""Harbor's environment as the sandbox that our agent's loop runs commands in."""

import shlex
from collections.abc import Sequence
from typing import Protocol

from runner.domain.errors import EngineError
from runner.evaluation.harbor.tunnel import Tunnel
from runner.rollout.bridge import Bridge
from runner.sandbox.base import ExecResult, Role
from runner.sandbox.shell import AGENT_ENV, Shell

HELPER_SECONDS = 20
_IDENTITY = ("HOME", "USER", "LOGNAME", "PATH")
"""Of the agent's variables, those that are the image's business: its user need not be ours."""
_PURGE = "kill -KILL -1"


class Executed(Protocol):
    """Harbor's ``ExecResult``."""

    stdout: str | None
    stderr: str | None
    return_code: int


class Environment(Protocol):
    """What is used of Harbor's ``BaseEnvironment``."""

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> Executed:
        """Run a bash command to its end; by the task's own user unless another is named."""


class HarborSandbox:
    """The part of ``base.Sandbox`` that an agent uses. Used by one thread, which is not the event loop's."""

    def __init__(self, environment: Environment, bridge: Bridge, *, output_bytes: int, base: str = "/run") -> None:
        """What the shell takes lies below ``base`` in the sandbox. Raises EngineError, Abandoned."""
        self._environment, self._bridge, self._base = environment, bridge, base
        self._env = {name: value for name, value in AGENT_ENV.items() if name not in _IDENTITY}
        self._tunnel: Tunnel | None = None
        start, home = self._folders()
        self._shell = Shell(
            open=self._open, execute=self._helper, limit=output_bytes, home=home, start=start, purge=self._purge
        )

    def run(self, command: str, *, timeout: float) -> ExecResult:
        """See ``base.Sandbox.run``. Raises EngineError, Abandoned."""
        return self._shell.run(command, timeout)

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        """Harbor's verifier follows in the same sandbox: what the agent left running is the task's to judge."""
        if self._tunnel is not None:
            self._tunnel.release()

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        """Harbor grades, not we."""
        raise EngineError("Harbor's environments run programs for Harbor's own verifier alone")

    def _folders(self) -> tuple[str, str]:
        """The folder that commands start in, and the agent's home."""
        word = "endless-folders"
        said = self._execute(f"echo {word}; pwd; echo ~; echo {word}", root=False, seconds=HELPER_SECONDS)
        lines = said.partition(f"{word}\n")[2].split("\n")
        if len(lines) < 3 or lines[2] != word:
            raise EngineError(f"the sandbox does not say where it starts: {said[-300:].strip()!r}")
        return lines[0], lines[1]

    def _open(self, argv: Sequence[str], cwd: str | None) -> Tunnel:
        self._tunnel = Tunnel(self._execute, argv, base=self._base)
        return self._tunnel

    def _helper(self, argv: Sequence[str]) -> None:
        """A short program beside the shell, by the agent."""
        self._execute(shlex.join(argv), root=False, seconds=HELPER_SECONDS)

    def _purge(self) -> None:
        self._execute(_PURGE, root=False, seconds=HELPER_SECONDS)

    def _execute(self, command: str, *, root: bool, seconds: int) -> str:
        work = self._environment.exec(
            command,
            env=None if root else self._env,
            timeout_sec=seconds,
            user="root" if root else None,
        )
        try:
            done = self._bridge.wait_for(work)
        except (OSError, RuntimeError) as error:
            raise EngineError(f"Harbor's environment could not run a command: {error}") from error
        return f"{done.stdout or ''}{done.stderr or ''}"
