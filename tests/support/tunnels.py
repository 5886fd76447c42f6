"""Shells behind a tunnel on this machine: the scripts that run inside Harbor's sandboxes, without Harbor."""

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runner.evaluation.harbor.tunnel import Tunnel
from runner.sandbox.shell import AGENT_ENV, Shell


@dataclass
class Executions:
    """Runs each command to its end, as Harbor's environments do. Root and agent are whoever runs the tests."""

    home: Path
    count: int = 0
    noise: str = ""
    """What the engine prints before each answer."""
    tunnels: list[Tunnel] = field(default_factory=list)

    def __call__(self, command: str, *, root: bool, seconds: int) -> str:
        self.count += 1
        env = AGENT_ENV | {"HOME": str(self.home)}
        done = subprocess.run(
            ["bash", "-c", command],
            env=env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
        return self.noise + done.stdout.decode("utf-8", "replace")

    def open(self, argv: Sequence[str]) -> Tunnel:
        self.tunnels.append(Tunnel(self, argv, base=str(self.home)))
        return self.tunnels[-1]


@contextmanager
def tunnel_shell(home: Path, limit: int = 1_000_000, noise: str = "") -> Iterator[tuple[Shell, Executions]]:
    """A shell of this machine's own bash behind a tunnel."""
    executions = Executions(home, noise=noise)
    shell = Shell(
        open=lambda argv, cwd: executions.open(argv),
        execute=lambda argv: str(executions(shlex.join(argv), root=False, seconds=20)),
        limit=limit,
        home=str(home),
    )
    try:
        yield shell, executions
    finally:
        shell.close()
