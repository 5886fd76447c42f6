"""A backend that does nothing at once: to measure the runner itself, with building and testing free."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.domain.task import AGENT_HOME, Environment
from runner.sandbox.base import ExecResult, Image, Probe, Role
from runner.schema import Sandbox as Settings

Exec = Callable[[Sequence[str], bytes], ExecResult]
"""(argv, stdin) -> what executing it is to have done."""


def succeed(argv: Sequence[str], stdin: bytes) -> ExecResult:
    """Exit code 0 and no output, whatever is asked."""
    return ExecResult(output=b"", exit_code=0, seconds=0.0)


class NullSandbox:
    """See ``base.Sandbox``: commands print nothing and succeed; ``exec`` answers what its script says."""

    def __init__(self, answer: Exec) -> None:
        self._answer = answer

    def run(self, command: str, *, timeout: float) -> ExecResult:
        """Nothing happens, successfully."""
        return ExecResult(output=b"", exit_code=0, seconds=0.0, cwd=AGENT_HOME)

    def quiesce(self) -> None:
        """There is nothing to end."""

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        """What the backend's ``verdict`` says."""
        return self._answer(argv, stdin)


class NullBackend:
    """See ``base.Backend``. Set ``verdict`` to decide what programs executed in its sandboxes do, and
    ``build_seconds`` to make builds take a while."""

    name = "null"
    grader = Path("/opt/endless-grader")

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        self.verdict: Exec = succeed
        self.build_seconds = 0.0

    def probe(self) -> Probe:
        """It always works, and enforces nothing, because it runs nothing."""
        return Probe(ok=True, detail="runs nothing", limits=("commands are not run",))

    def build(self, environment: Environment, *, timeout: float) -> Image:
        """Every environment builds."""
        time.sleep(self.build_seconds)
        return Image(reference="null", environment=environment)

    @contextmanager
    def start(self, image: Image) -> Iterator[NullSandbox]:
        """A sandbox of nothing."""
        yield NullSandbox(self.verdict)

    def close(self) -> None:
        """Nothing to close."""

    def reap(self) -> int:
        """Nothing is ever left."""
        return 0

    def remove_image(self, image: Image) -> None:
        """There is no image."""
