"""Training on a Ray cluster: the command is handed to the cluster's job server, and stopped there when we stop."""

import json
import logging
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import MissingRequirement

log = logging.getLogger(__name__)

_STOP_SECONDS = 60.0


@contextmanager
def submitted(address: str, words: Sequence[str], env: Mapping[str, str]) -> Iterator[list[str]]:
    """The command that submits ``words`` and follows the job's log to its end; leaving the context stops the job.

    ``env`` reaches all of the job's processes. Raises MissingRequirement without the program ``ray``.
    """
    ray = _program(words[0])
    job = f"endless-{uuid.uuid4().hex[:12]}"
    runtime = json.dumps({"env_vars": dict(env)})
    submit = [ray, "job", "submit", "--address", address, "--submission-id", job, "--runtime-env-json", runtime]
    try:
        yield [*submit, "--", *words]
    finally:
        _stop(ray, address, job)


def _program(python: str) -> str:
    """``ray`` beside the trainer's Python, else on PATH."""
    found = shutil.which("ray", path=str(Path(python).parent)) or shutil.which("ray")
    if found is None:
        raise MissingRequirement("training.ray_address needs the program ray: pip install 'endless-terminals[train]'")
    return found


def _stop(ray: str, address: str, job: str) -> None:
    """Harmless for a job that has ended."""
    try:
        subprocess.run([ray, "job", "stop", "--address", address, job], capture_output=True, timeout=_STOP_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("the cluster at %s may still run job %s: %s; `ray job stop %s` ends it", address, job, error, job)
