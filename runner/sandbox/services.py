"""A task's services, the same on every backend: start them, wait until they are healthy, keep them for grading.

A backend's sandbox brings the ways to run a program; what is run, and what its outcome means, is here.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from runner.domain.errors import EngineError
from runner.domain.task import Environment, HealthCheck
from runner.sandbox import keepers
from runner.sandbox.base import BuildFailure, ExecResult
from runner.sandbox.runtime import python_argv

log = logging.getLogger(__name__)

START_SECONDS = 30.0
KEEP_SECONDS = keepers.ALL_SECONDS + 10.0
LOG_CHARACTERS = 2000

Execute = Callable[[Sequence[str], float], tuple[int | None, bytes]]
"""(program, seconds) -> (exit code, or None where it was stopped; output). Raises EngineError."""
Run = Callable[[str, float], ExecResult]
"""The agent's shell: (command, seconds) -> what it did. Raises EngineError."""

# The script's services keep its output open for as long as they live, so it goes to a file that has no name any more.
_START = """
log=$(mktemp) || exit 1
bash -c "$1" </dev/null >"$log" 2>&1; code=$?
((code == 0)) || tail -c 4000 "$log"
rm -f "$log"; exit "$code"
"""


def serve(environment: Environment, *, execute: Execute, run: Run) -> BuildFailure | None:
    """Run an environment's start script as the agent, with ``execute``, then wait until its health check succeeds in
    the agent's shell; None is success. What the script left running stays. Raises EngineError."""
    failure = _start(environment.start, execute) if environment.start else None
    if failure is None and environment.health is not None:
        failure = _await(environment.health, run)
    return failure


def keep(ports: Sequence[int], grader: Path, execute: Execute) -> bool:
    """End the agent's processes except those that listen on one of ``ports`` (see ``keepers``). ``execute`` is as root
    in the agent's process namespace. False where nobody listens, or it did not work: the caller is to end them all."""
    source = Path(keepers.__file__).read_text(encoding="utf-8")
    argv = [*python_argv(grader), "-c", source, *map(str, ports)]
    try:
        code, said = execute(argv, KEEP_SECONDS)
    except EngineError as error:  # no process more can be started, say; if it is the engine, the next call will tell
        code, said = None, str(error).encode()
    if code not in (keepers.KEPT, keepers.NOBODY):
        log.debug("services could not be kept (exit code %s): %s", code, said[-500:].decode("utf-8", "replace"))
    return code == keepers.KEPT


def _start(script: str, execute: Execute) -> BuildFailure | None:
    code, output = execute(["bash", "--norc", "--noprofile", "-c", _START, "start", script], START_SECONDS)
    if code == 0:
        return None
    why = f"did not return within {START_SECONDS:.0f} s" if code is None else f"ended with exit code {code}"
    return BuildFailure(log=f"{_text(output)}\nstart.sh {why}".lstrip(), timed_out=code is None)


def _await(check: HealthCheck, run: Run) -> BuildFailure | None:
    began = time.monotonic()
    failures = 0
    while (result := run(f"(\n{check.command}\n)", check.timeout_seconds)).exit_code != 0:
        if time.monotonic() - began < check.start_period_seconds:
            time.sleep(check.start_interval_seconds)
            continue
        failures += 1
        if failures >= check.retries:
            return _unhealthy(check, result, time.monotonic() - began)
        time.sleep(check.interval_seconds)
    return None


def _unhealthy(check: HealthCheck, last: ExecResult, seconds: float) -> BuildFailure:
    """The failure, with what the last try printed."""
    took_long = f"took longer than {check.timeout_seconds:g} s"
    why = took_long if last.exit_code is None else f"ended with exit code {last.exit_code}"
    tried = f"the health check, tried {check.retries} times in {seconds:.0f} s, {why}: {check.command.strip()}"
    return BuildFailure(log=f"{_text(last.output)}\n{last.refused or tried}".lstrip(), timed_out=last.exit_code is None)


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").rstrip()[-LOG_CHARACTERS:]
