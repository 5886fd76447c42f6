"""One rollout, in a thread of its own: tried until it is graded, and masked when infrastructure keeps it from that."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.agent.harness import Harness
from runner.agent.loop import Call
from runner.domain.episode import EndReason, Episode, Outcome
from runner.domain.errors import EndlessError, EngineGone, RecipeError
from runner.domain.task import Task
from runner.prompts import PromptSet
from runner.rollout.attempt import Attempted, attempt
from runner.rollout.bridge import Abandoned, Bridge
from runner.sandbox.base import Backend
from runner.sandbox.outage import Outages
from runner.training.executor.chat import Chat
from runner.training.executor.engine import Engine, EngineClient
from runner.training.executor.logs import logs_of, masked_logs
from runner.training.executor.response import Response, graded, masked
from runner.training.executor.settings import Recipe
from runner.training.executor.tokens import Trajectory

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the trainer asks for."""

    prompt: str
    """The opening messages, rendered with the chat template."""
    label: str
    """The task's id."""
    params: Any
    """vLLM's ``SamplingParams``."""
    max_length: int
    """Tokens that a trajectory may have."""
    engine: Engine
    bridge: Bridge
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, kw_only=True)
class Played:
    """The end of a rollout: what the trainer gets, and what is kept of it."""

    response: Response
    episode: Episode
    retries: int


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Plays one request on one task."""

    request: Request
    task: Task
    sample: int
    recipe: Recipe
    prompts: PromptSet
    chat: Chat
    prompt_ids: list[int]
    outages: Outages
    """Shared by all rollouts of a worker."""
    open_backend: Callable[[], Backend]
    """Raises InfraError while there is none."""
    now: Callable[[], float] = time.monotonic
    """What the agent's limits go by."""

    def play(self) -> Played:
        """Never raises for trouble of the world's, nor for a mistake of ours: it would end the whole training.

        Raises RecipeError for a chat template that cannot be continued, and Abandoned.
        """
        retries = self.recipe.ppo.infra_retries
        for trial in range(retries + 1):
            client = self._client()
            try:
                return self._graded(client, self._attempt(client), trial)
            except (RecipeError, Abandoned):
                raise
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}"
                log.warning(
                    "%s, try %d of %d: %s", self._name, trial + 1, retries + 1, trouble, exc_info=_unforeseen(error)
                )
                if trial < retries and not self._worth_another_try(error, trial):
                    break
        return self._masked(trouble, trial)

    @property
    def _name(self) -> str:
        return f"rollout {self.task.id}/{self.sample}"

    def _client(self) -> EngineClient:
        request = self.request
        return EngineClient(request.engine, request.bridge, self.chat, self._trajectory(), request.params)

    def _trajectory(self) -> Trajectory:
        limit = min(self.request.max_length, self.recipe.agent.context_tokens)
        measured = self.request.params.logprobs is not None
        return Trajectory(prompt=self.prompt_ids, limit=max(limit, len(self.prompt_ids)), measured=measured)

    def _attempt(self, client: EngineClient) -> Attempted:
        harness = Harness(self.recipe.agent, self.task.instruction, self.prompts)
        call = Call(slot=f"ppo/{self.task.id}/{self.sample}", scope="", temperature=None)
        return attempt(self.task, self.sample, harness, client, call, self.open_backend(), now=self.now)

    def _graded(self, client: EngineClient, attempted: Attempted, retries: int) -> Played:
        episode, trajectory = attempted.episode, client.trajectory
        logs = logs_of(
            episode,
            trajectory.sampled,
            seconds=time.monotonic() - self.request.began,
            grading_seconds=attempted.grading_seconds,
            retries=retries,
        )
        response = graded(
            self.request.prompt,
            self.request.label,
            trajectory,
            reward=reward_of(episode, needs_done=self.recipe.ppo.reward_needs_done),
            truncated=client.cut or episode.end is EndReason.CONTEXT_FULL,
            logs=logs,
        )
        return Played(response=response, episode=episode, retries=retries)

    def _masked(self, trouble: str, retries: int) -> Played:
        logs = masked_logs(seconds=time.monotonic() - self.request.began, retries=retries)
        response = masked(self.request.prompt, self.request.label, self._trajectory(), logs)
        episode = Episode(
            task_id=self.task.id, sample=self.sample, outcome=Outcome.INFRA, end=EndReason.INFRA, verdict=trouble
        )
        return Played(response=response, episode=episode, retries=retries)

    def _worth_another_try(self, error: Exception, trial: int) -> bool:
        """Wait until it may go better. False: the engine has not come back. Raises Abandoned."""
        stopped = self.request.bridge.stopped
        back = not isinstance(error, EngineGone) or self.outages.wait(error, stopped)
        if back:
            stopped.wait(self.recipe.executor.backoff_seconds * 2**trial * random.uniform(0.5, 1.5))
        if stopped.is_set():
            raise Abandoned
        return back


def reward_of(episode: Episode, *, needs_done: bool) -> float:
    """1.0 for a pass (where ``needs_done``: one that the agent itself ended), else 0.0."""
    earned = episode.outcome is Outcome.PASS and (not needs_done or episode.end is EndReason.DONE)
    return float(earned)


def _unforeseen(error: Exception) -> bool:
    """Whether a traceback helps."""
    return not isinstance(error, EndlessError)
