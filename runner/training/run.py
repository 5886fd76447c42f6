"""Run a compiled command to its end: resumed, watched, and with its figures handed out while it trains."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from runner.domain.errors import MissingRequirement
from runner.schema import Config
from runner.schema_training import Device
from runner.store.jsonl import write_json
from runner.store.scratch import scratch
from runner.training.cluster import submitted
from runner.training.compile import Command
from runner.training.environment import ours, python_path, trainer_environment
from runner.training.extensions import extensions
from runner.training.figures import Follower
from runner.training.figures.follow import Point
from runner.training.launch import Trainer, run_program, started
from runner.training.patches.figures import VARIABLE

LOG, FIGURES, COMMAND, JOB = "trainer.log", "figures.jsonl", "command.json", "job.txt"
_LOOK_SECONDS = 0.5
_LONGEST = 40
_CPU_START = ("-m", "runner.training.cpu.start")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training."""

    phase: str
    config: Config
    command: Command
    folder: Path
    """Where it works and leaves everything."""
    cache: Path
    env: Mapping[str, str] = field(default_factory=dict)
    """More environment variables for the trainer."""
    on_points: Callable[[Sequence[Point]], None]
    """Called with new steps, in order, from the calling thread. What it raises ends the training."""


def train(job: Job, stop: Event) -> bool:
    """Train until the trainer has ended; False when ``stop`` ended it. Raises TrainerError, StorageError."""
    write_json(job.folder / COMMAND, _record(job))
    follower = Follower(job.folder / FIGURES, job.phase)
    with _started(job) as trainer:
        while trainer.running():
            if stop.wait(_LOOK_SECONDS):
                return False
            _hand_out(job, follower.new_points())
    _hand_out(job, follower.new_points(ended=True))
    return True


def _hand_out(job: Job, points: list[Point]) -> None:
    if points:
        job.on_points(points)


@contextmanager
def _started(job: Job) -> Iterator[Trainer]:
    with scratch("ray") as temporary, extensions(job.cache) as compiled:
        _require_short(temporary)
        extra = {VARIABLE: str(job.folder / FIGURES), **job.env}
        env = trainer_environment(job.config, job.command, extra=extra, compiled=compiled, scratch=temporary)
        signs = [job.folder / FIGURES]
        silence = job.config.training.silence_seconds
        log = job.folder / LOG
        words = command_words(job.config, job.command)
        address = job.config.training.ray_address
        with ExitStack() as stack:
            if address:
                shared = {name: env[name] for name in (*job.command.env, *extra, *ours()) if name in env}
                words = stack.enter_context(submitted(address, words, shared, note=job.folder / JOB))
            yield stack.enter_context(started(words, env, folder=job.folder, log=log, signs=signs, silence=silence))


def _require_short(temporary: Path) -> None:
    """A socket's path has 107 characters at most, and Ray's add up to 67 to the folder's. Raises MissingRequirement."""
    if len(str(temporary)) > _LONGEST:
        raise MissingRequirement(
            f"the temporary folder {temporary} is too long a name for Ray's sockets ({len(str(temporary))} characters, "
            f"at most {_LONGEST}): export TMPDIR=/tmp, or another short one"
        )


def command_words(config: Config, command: Command) -> list[str]:
    """The whole command line on this machine."""
    words = command.words(config.training.python or sys.executable)
    if config.training.device is Device.cpu:
        module = words.index("-m")
        return [*words[:module], *_CPU_START, *words[module + 1 :]]
    return words


def _record(job: Job) -> dict[str, Any]:
    """What is kept of the command, for people and for MLflow. The environment is what we add, never what we inherit."""
    return {
        "command": shlex.join(command_words(job.config, job.command)),
        "env": dict(job.command.env),
        "notes": list(job.command.notes),
        "deviations": [str(deviation) for deviation in job.command.deviations],
        "steps": job.command.steps,
        "versions": _versions(job.config),
    }


def _versions(config: Config) -> dict[str, str]:
    """Of the trainer and of what it stands on, in its own Python."""
    python = config.training.python or sys.executable
    said = run_program(python, "runner.training.versions", env={"PYTHONPATH": python_path("")})
    found: dict[str, str] = json.loads(said.splitlines()[-1])
    return found


def read_record(folder: Path) -> dict[str, Any]:
    """The command of a finished training."""
    record: dict[str, Any] = json.loads((folder / COMMAND).read_text(encoding="utf-8"))
    return record
