"""Shells over plain local processes: the protocol without any engine. Leftover children are the caller's to end."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from runner.sandbox.process import ProcessTransport
from runner.sandbox.shell import AGENT_ENV, Shell


@contextlib.contextmanager
def plain_shell(home: Path, limit: int = 1_000_000) -> Iterator[Shell]:
    """A shell of this machine's own bash. Everything started in it carries a marker in its environment and is killed
    at the end."""
    marker = f"ENDLESS_TEST_SHELL_{os.getpid()}_{os.urandom(4).hex()}"
    env = AGENT_ENV | {"HOME": str(home), marker: "1"}

    def execute(argv: Sequence[str]) -> None:
        subprocess.run(argv, env=env, check=False, timeout=20, capture_output=True)

    shell = Shell(
        open=lambda argv, cwd: ProcessTransport(argv, env=env, cwd=cwd), execute=execute, limit=limit, home=str(home)
    )
    try:
        yield shell
    finally:
        shell.close()
        _kill_marked(marker)


def _kill_marked(marker: str) -> None:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if marker in process.environ():
                os.kill(process.pid, signal.SIGKILL)
