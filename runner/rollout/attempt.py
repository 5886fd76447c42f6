"""One attempt at a task, whoever the agent is: find the image, let it act, grade it.

The filter's clients are models behind an API; in training the client is the trainer's own engine. Both come through
here, so what an episode is cannot differ between them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from runner.agent.harness import Harness
from runner.agent.loop import Call, Transcript, play
from runner.domain.episode import Episode
from runner.domain.errors import EngineError
from runner.domain.task import Task
from runner.grading.grade import grade, settle
from runner.grading.verify import Verdict
from runner.llm.base import Client
from runner.sandbox.base import Backend, BuildFailure, Image

VERDICT_CHARS = 2000


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """A finished attempt."""

    episode: Episode
    grading_seconds: float


def attempt(
    task: Task,
    sample: int,
    harness: Harness,
    client: Client,
    call: Call,
    backend: Backend,
    *,
    now: Callable[[], float] = time.monotonic,
) -> Attempted:
    """Play and grade one episode; however the agent stopped, the hidden tests run and the sandbox is closed.

    Raises InfraError (try the episode again) and whatever else the client raises.
    """
    image = _image(task, backend)
    with backend.start(image) as sandbox:
        played = play(harness, client, sandbox, call, now=now)
        began = now()
        verdict = grade(task, sandbox, backend)
    verdict = settle(task, verdict, backend, image)
    return Attempted(episode=_episode(task, sample, played, verdict), grading_seconds=now() - began)


def _image(task: Task, backend: Backend) -> Image:
    image = backend.build(task.environment, timeout=task.limits.build_seconds)
    if isinstance(image, BuildFailure):
        # It was built when the task was made: that it does not build now is no fault of the agent's.
        raise EngineError(f"the environment of task {task.id} no longer builds: {image.log[-300:]}")
    return image


def _episode(task: Task, sample: int, played: Transcript, verdict: Verdict) -> Episode:
    return Episode(
        task_id=task.id,
        sample=sample,
        outcome=verdict.outcome,
        end=played.end,
        turns=played.turns,
        prompt=played.prompt,
        verdict=verdict.log[-VERDICT_CHARS:],
        seconds=round(played.seconds, 3),
    )
