"""The three backends that run commands, for tests that must hold on each of them."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pytest

from runner.sandbox.base import Backend, ExecResult, Image, Sandbox

ENGINES = [
    pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.live]),
    pytest.param("apptainer", marks=[pytest.mark.apptainer, pytest.mark.live]),
    pytest.param("local", marks=[pytest.mark.local, pytest.mark.live]),
]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A backend with one built environment."""

    name: str
    backend: Backend
    image: Image

    def start(self) -> AbstractContextManager[Sandbox]:
        """A fresh sandbox of it."""
        return self.backend.start(self.image)


class Runs(Protocol):
    """What a plain shell and a sandbox have in common."""

    def run(self, command: str, timeout: float) -> ExecResult:
        """Run a command for at most ``timeout`` seconds."""


class InSandbox:
    """A sandbox's shell, called as a plain one is."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def run(self, command: str, timeout: float) -> ExecResult:
        """See ``Runs``."""
        return self._sandbox.run(command, timeout=timeout)
