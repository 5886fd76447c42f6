"""Grade by an imported Harbor task's own ``tests/test.sh``, under the protection of our own tests as far as it goes.

The same: the agent's processes are ended first; only then do the tests come, into a folder for root alone; the driver
(``script_boot.py``) runs on the grader's own Python and reports with a nonce; ``PATH`` and environment are fixed and
hold nothing of the image or the agent; rewards that lay there before are gone; the time limit is the task's own.
Links of the agent that lead to the tests, the rewards or /proc are removed before the script could follow them.
A reward of 1 is a pass, less is a fail. One over 1 has no known scale: EngineError.

**A missing reward is never a silent 0.** It may be the verifier's fault (it wants a network, say: infra) or the agent's
(it removed a file without which ``set -e`` ends the script: a fail, or else an agent could earn itself another try).
``verify_script`` alone cannot tell, and returns the reason ``no_reward``; ``settle`` in ``grade.py`` runs the verifier
on an untouched sandbox: a verifier that leaves no reward there either is broken, and that is an EngineError.

What this cannot protect from: the script uses the image's tools. The agent is uid 1000 and cannot replace them, but
where an image gives it a folder that root's programs load from (a virtual environment of its own, a PATH entry below
/usr/local), or where the script runs the agent's program, or imports from the working folder (``python -m``), code of
the agent runs as root and can write any reward. Harbor has the same hole. Tasks with a pytest file do not: prefer them.
Scripts that fetch tools (apt-get, uvx) find no network here. Variables of the image's ENV are not set.
"""

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path

from runner.domain.episode import Outcome
from runner.domain.errors import EngineError
from runner.grading.verify import GRACE_SECONDS, LOG_BYTES, Reason, Verdict, execute, read_report
from runner.sandbox.advice import advised
from runner.sandbox.base import Role, Sandbox

SEARCH_SECONDS = 60.0
"""For looking through the sandbox's files for such links; it takes well under a second, unless there are millions."""


def verify_script(
    sandbox: Sandbox,
    grader: Path,
    script: str,
    *,
    timeout: float,
    files: Mapping[str, bytes] | None = None,
    cwd: str = "/",
    quiesce: bool = True,
) -> Verdict:
    """Run ``script`` as root in ``sandbox`` from ``cwd`` for at most ``timeout`` seconds; ``files`` lie beside it.

    Raises EngineError when the sandbox broke, or the reward is beyond 1. Reason ``no_reward``: see above.
    """
    if quiesce:
        sandbox.quiesce()
    nonce = secrets.token_hex(16)
    payload = {
        "nonce": nonce,
        "test": script,
        "script": _encoded(script.encode("utf-8", "surrogatepass")),
        "files": {name: _encoded(content) for name, content in (files or {}).items()},
        "cwd": cwd,
        "seconds": timeout,
        "search_seconds": SEARCH_SECONDS,
        "log_bytes": LOG_BYTES,
    }
    most = timeout + SEARCH_SECONDS + GRACE_SECONDS
    result = execute(sandbox, grader, "script_boot.py", payload, seconds=most, role=Role.ROOT)
    report = read_report(sandbox, grader, nonce.encode(), result)
    if isinstance(report, Verdict):
        return report
    if report["reason"] == "no_place":
        raise EngineError(advised(f"A verifier script cannot run in this sandbox: {report['log']}"))
    if report["reason"] == "out_of_range":
        raise EngineError(
            f"The verifier gave a reward of {report['reward']:g}; only rewards from 0 to 1 mean anything: mend it"
        )
    reason = Reason(report["reason"])
    passed = reason is Reason.PASSED and result.exit_code == 0
    if reason is Reason.PASSED and not passed:
        reason = Reason.CRASH
    outcome = Outcome.PASS if passed else Outcome.FAIL
    return Verdict(outcome=outcome, reason=reason, reward=report.get("reward"), log=str(report["log"]).strip())


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
