"""A backend that runs nothing and answers at once: to measure the runner itself, with building and testing free."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.domain.task import AGENT_HOME, Environment
from runner.sandbox.base import ExecResult, Image, Probe, Role
from runner.schema import Sandbox as Settings

Verdict = Callable[[str, Sequence[str]], bool]
"""(the test's text, the commands run in this sandbox so far) -> whether the test is to pass."""


def plausible(test: str, commands: Sequence[str]) -> bool:
    """What a sound task's tests would say: one with "initial" in its text passes, any other after some command."""
    return "initial" in test or bool(commands)


class NullSandbox:
    """See ``base.Sandbox``: commands print nothing and succeed; the verifier is told what ``verdict`` says."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._commands: list[str] = []

    def run(self, command: str, *, timeout: float) -> ExecResult:
        """Nothing happens, successfully."""
        self._commands.append(command)
        return ExecResult(output=b"", exit_code=0, seconds=0.0, cwd=AGENT_HOME)

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        """There is nothing to end."""

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        """To the verifier (``grading/verify.py``), the report of a test run; to anything else, success."""
        payload = _payload(stdin)
        if not payload:
            return ExecResult(output=b"", exit_code=0, seconds=0.0)
        passes = self._verdict(payload["test"], tuple(self._commands))
        return ExecResult(output=_report(payload["nonce"], passes), exit_code=0 if passes else 1, seconds=0.0)


class NullBackend:
    """See ``base.Backend``. Set ``verdict`` to decide which tests pass, ``build_seconds`` to make builds take time."""

    name = "null"
    grader = Path("/opt/endless-grader")

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        self.verdict: Verdict = plausible
        self.build_seconds = 0.0

    def probe(self) -> Probe:
        """It always works, because it does nothing."""
        return Probe(ok=True, detail="runs nothing", limits=("commands are not run",))

    def build(self, environment: Environment, *, timeout: float) -> Image:
        """Every environment builds."""
        time.sleep(self.build_seconds)
        return Image(reference="null", environment=environment)

    @contextmanager
    def start(self, image: Image) -> Iterator[NullSandbox]:
        """A sandbox of nothing."""
        yield NullSandbox(self.verdict)

    def stop(self) -> None:
        """Nobody ever waits."""

    def close(self) -> None:
        """Nothing to close."""

    def reap(self) -> int:
        """Nothing is ever left."""
        return 0

    def remove_image(self, image: Image) -> None:
        """There is no image."""


def _payload(stdin: bytes) -> dict[str, str]:
    """The verifier's request: the second of its blocks, each of which follows a line that says its length."""
    length, _, rest = stdin.partition(b"\n")
    if not length.isdigit():
        return {}
    found: dict[str, str] = json.loads(rest[int(length) :].partition(b"\n")[2])
    return found


def _report(nonce: str, passes: bool) -> bytes:
    counts = {"collected": 1, "passed": int(passes), "failed": int(not passes), "errors": 0, "skipped": 0}
    said = {**counts, "exit": int(not passes), "reason": "passed" if passes else "assertion", "log": "no test was run"}
    return f"\n{nonce}ready\n\n{nonce}{json.dumps(said)}\n".encode()
