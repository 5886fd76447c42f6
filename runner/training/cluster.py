"""Training on a Ray cluster: the command is handed to the cluster's job server, and stopped there when we stop.

A job outlives whoever submitted it. So its name is on disk before it is submitted, and a run that goes on after a
kill -9 first stops the job of the killed one: two trainings must not write to one folder.
"""

import json
import logging
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import MissingRequirement
from runner.store.jsonl import write_text
from runner.training.errors import TrainerError

log = logging.getLogger(__name__)

_STOP_SECONDS = 60.0


@contextmanager
def submitted(address: str, words: Sequence[str], env: Mapping[str, str], *, note: Path) -> Iterator[list[str]]:
    """The command that submits ``words`` and follows the job's log to its end; leaving the context stops the job.

    ``env`` reaches all of the job's processes; ``note`` is the file for the job's name. Raises MissingRequirement
    without the program ``ray``, StorageError, and TrainerError where an earlier job cannot be stopped.
    """
    ray = _program(words[0])
    if note.exists() and not _stop(ray, address, earlier := note.read_text(encoding="utf-8")):
        raise TrainerError(
            f"an earlier attempt's job may still run: `ray job stop --address {address} {earlier}` ends it"
        )
    job = f"endless-{uuid.uuid4().hex[:12]}"
    write_text(note, job)
    runtime = json.dumps({"env_vars": dict(env)})
    submit = [ray, "job", "submit", "--address", address, "--submission-id", job, "--runtime-env-json", runtime]
    try:
        yield [*submit, "--", *words]
    finally:
        if _stop(ray, address, job):
            note.unlink(missing_ok=True)


def _program(python: str) -> str:
    """``ray`` beside the trainer's Python, else on PATH."""
    found = shutil.which("ray", path=str(Path(python).parent)) or shutil.which("ray")
    if found is None:
        raise MissingRequirement("training.ray_address needs the program ray: pip install 'endless-terminals[train]'")
    return found


def _stop(ray: str, address: str, job: str) -> bool:
    """Whether the job does not run any more, as one that has ended or never began."""
    words = [ray, "job", "stop", "--address", address, job]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_STOP_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _may_run(words, str(error))
    if done.returncode == 0 or f"{job} does not exist" in done.stderr:
        return True
    return _may_run(words, done.stderr.strip().rpartition("\n")[2])


def _may_run(words: Sequence[str], why: str) -> bool:
    log.warning("a job may still run on the cluster: %s; `%s` ends it", why, shlex.join(["ray", *words[1:]]))
    return False
