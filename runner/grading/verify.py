"""Run a hidden test file against a sandbox, where the agent cannot touch it, and say what came of it.

What makes a verdict trustworthy: the agent's processes are gone before the test arrives (``quiesce``); the test runs
on an interpreter that the sandbox cannot change (``sandbox/runtime.py``), started directly, without a shell, search
path or environment; and a pass needs both exit code 0 and a report marked with a nonce that no program of the agent
can read (``boot.py``).

Pass, fail or infra? Whatever the test or the agent's files can bring about is a **fail** with its reason: a test that
hangs (``timeout``), a script that kills the grader (``crash``), a filled-up disk (``no_space``). Otherwise an agent
could earn itself another try. **Infra**, raised as EngineError, is what they cannot bring about: the grader does not
get as far as reading the test, or the sandbox no longer runs a trivial program after a verifier that did not report.

Where the task keeps services (``Task.keep_ports``), the agent's processes that listen on its ports live on
(``sandbox/keepers.py``). They are the agent's code, so a verdict may then depend on what they do while the tests run:
on their answers, and on files that they change. They have no power over the grader or over the tests' own programs,
which run as ``STRANGER``; and if the grader cannot work beside them, but can without them, that is a fail.

Known limits: a test that imports the agent's code runs it inside the grader (start such code as a program instead);
a script of the agent that an early test starts can repair files that a later test looks at.
"""

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from runner.domain.episode import Outcome
from runner.domain.errors import EngineError, EngineGone
from runner.sandbox.advice import KILLED, OTHER_IMAGE
from runner.sandbox.base import ExecResult, Role, Sandbox
from runner.sandbox.runtime import SITE, python_argv

GRACE_SECONDS = 15.0
"""The verifier ends itself; this much later it is ended from outside (a test may hold the interpreter's lock)."""
HEALTH_SECONDS = 30.0
LOG_BYTES = 20_000
AGENT, STRANGER = 1000, 65534
"""Who programs that tests start run as: the agent, or beside kept services ``nobody``, in the agent's group."""
TEST_NAME = "test_final_state.py"

_LOADER = (
    "import sys; grader = sys.argv[1]; "
    f"sys.path[:] = [p for p in sys.path if p.startswith(grader + '/')] + [grader + '/{SITE}']; "
    "source = sys.stdin.buffer; exec(compile(source.read(int(source.readline())), '<grader>', 'exec'))"
)


class Reason(StrEnum):
    """Why a verdict is what it is. Only ``PASSED`` is a pass."""

    PASSED = "passed"
    ASSERTION = "assertion"
    """An assertion failed, and nothing worse happened: the way a good test fails."""
    ERROR = "error"
    """A test raised another exception."""
    FIXTURE_ERROR = "fixture_error"
    """A fixture failed, before or after its test."""
    COLLECTION_ERROR = "collection_error"
    """The test file does not parse or does not import."""
    NO_TESTS = "no_tests"
    SKIPPED = "skipped"
    """Some test was skipped (or expected to fail), which proves nothing."""
    TIMEOUT = "timeout"
    CRASH = "crash"
    """The verifier ended without a report: something killed it."""
    NO_SPACE = "no_space"
    """The sandbox's disk was too full to put the test on it."""
    LOW_REWARD = "low_reward"
    """An imported verifier gave less than the full reward (``harbor_verifier``)."""
    NO_REWARD = "no_reward"
    """An imported verifier left no reward, or none that can be read."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a test file said about a sandbox."""

    outcome: Outcome
    """PASS or FAIL; infrastructure trouble is an EngineError and never a verdict."""
    reason: Reason
    collected: int = 0
    passed: int = 0
    failed: int = 0
    """Tests that failed when called."""
    errors: int = 0
    """Failed fixtures and files that could not be collected."""
    reward: float | None = None
    """The reward that an imported verifier wrote, from 0 to 1; None where pytest decided, or where it wrote none."""
    log: str = ""
    """The end of pytest's output, without times and temporary names: equal results have equal logs."""


def verify(
    sandbox: Sandbox,
    grader: Path,
    test: str,
    *,
    timeout: float,
    files: Mapping[str, bytes] | None = None,
    keep_ports: Sequence[int] = (),
    quiesce: bool = True,
    role: Role = Role.ROOT,
) -> Verdict:
    """Run ``test``, a pytest file, in ``sandbox``, for at most ``timeout`` seconds.

    ``grader`` is where the backend mounts the runtime (``Backend.grader``). ``files`` (relative path -> content) lie
    beside the test, for imported tasks whose tests read data. ``keep_ports``: see ``Task``. ``quiesce=False`` is for
    sandboxes in which no agent has run. ``role`` is who the test itself runs as: anything but root is for tests of an
    untouched sandbox that were written for an image's own user; no agent's work may be graded so. Raises EngineError
    (see the module's docstring).
    """
    if quiesce:
        sandbox.quiesce(keep_ports)
    nonce = secrets.token_hex(16)
    payload = {
        "nonce": nonce,
        "name": TEST_NAME,
        "test": test,
        "files": {name: base64.b64encode(content).decode() for name, content in (files or {}).items()},
        "seconds": timeout,
        "log_bytes": LOG_BYTES,
        "children": STRANGER if keep_ports else AGENT,
    }
    try:
        result = execute(sandbox, grader, "boot.py", payload, seconds=timeout + GRACE_SECONDS, role=role)
        return _judge(sandbox, grader, nonce.encode(), result)
    except EngineError as error:
        if not keep_ports or isinstance(error, EngineGone):
            raise
        return _blame_services(sandbox, grader, error)


def execute(
    sandbox: Sandbox, grader: Path, program: str, payload: Mapping[str, Any], *, seconds: float, role: Role
) -> ExecResult:
    """Run ``program``, a file of this package, on the grader's Python; it reads ``payload``. Raises EngineError."""
    blocks = (_text(program), json.dumps(payload).encode())
    stdin = b"".join(b"%d\n%s" % (len(block), block) for block in blocks)
    argv = [*python_argv(grader), "-c", _LOADER, str(grader)]
    return sandbox.exec(argv, role=role, timeout=seconds, stdin=stdin)


@cache
def _text(program: str) -> bytes:
    """Read once: a long run does not change its grader because the project is updated meanwhile."""
    return b"\n".join(Path(__file__).with_name(name).read_bytes() for name in ("links.py", program))


def _judge(sandbox: Sandbox, grader: Path, nonce: bytes, result: ExecResult) -> Verdict:
    """Turn what came back into a verdict. Raises EngineError."""
    report = read_report(sandbox, grader, nonce, result)
    if isinstance(report, Verdict):
        return report
    reason = Reason(report["reason"])
    counts = {name: int(report[name]) for name in ("collected", "passed", "failed", "errors")}
    if reason is Reason.PASSED and not _whole(result, report, counts):
        reason = Reason.CRASH
    outcome = Outcome.PASS if reason is Reason.PASSED else Outcome.FAIL
    return Verdict(outcome=outcome, reason=reason, log=str(report["log"]), **counts)


def read_report(sandbox: Sandbox, grader: Path, nonce: bytes, result: ExecResult) -> Verdict | dict[str, Any]:
    """What the program in the sandbox reported, or the verdict on one that did not. Raises EngineError."""
    lines = [line.removeprefix(nonce) for line in result.output.splitlines() if line.startswith(nonce)]
    if b"ready" not in lines:
        said = result.output[-500:].decode("utf-8", "replace").strip()
        raise EngineError(
            f"The verifier did not start in the sandbox (exit code {result.exit_code}): {said}. {OTHER_IMAGE}"
        )
    if len(lines) < 2:
        _check_health(sandbox, grader)
        reason = Reason.TIMEOUT if result.timed_out else Reason.CRASH
        return Verdict(outcome=Outcome.FAIL, reason=reason, log=f"The verifier ended without a report ({reason}).")
    report: dict[str, Any] = json.loads(lines[1])
    return report


def _whole(result: ExecResult, report: Mapping[str, Any], counts: Mapping[str, int]) -> bool:
    """Everything that must agree for a pass does."""
    clean = result.exit_code == 0 and report["exit"] == 0 and counts["failed"] == counts["errors"] == 0
    return clean and counts["passed"] == counts["collected"] > 0


def _blame_services(sandbox: Sandbox, grader: Path, error: EngineError) -> Verdict:
    """The verdict on services beside which the grader did not work. Raises EngineError if it does not without them."""
    sandbox.quiesce()
    _check_health(sandbox, grader)
    log = f"The verifier could not work beside the services that the task keeps: {error}"
    return Verdict(outcome=Outcome.FAIL, reason=Reason.CRASH, log=log)


def _check_health(sandbox: Sandbox, grader: Path) -> None:
    """Raises EngineError unless the sandbox still runs a trivial program of ours."""
    proof = secrets.token_hex(8)
    argv = [*python_argv(grader), "-c", "import sys; print(sys.argv[1])", proof]
    result = sandbox.exec(argv, role=Role.ROOT, timeout=HEALTH_SECONDS)
    if result.exit_code != 0 or result.output.strip() != proof.encode():
        raise EngineError(f"The sandbox broke while the tests ran (exit code {result.exit_code}). {KILLED}")
