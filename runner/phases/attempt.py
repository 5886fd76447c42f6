"""One solver episode under a recipe."""

from dataclasses import dataclass

from runner.agent.harness import Harness
from runner.agent.loop import Call
from runner.domain.episode import Episode
from runner.domain.plain import fingerprint, plain
from runner.domain.task import Task
from runner.llm.base import Client
from runner.phases.base import sandbox_world
from runner.prompts import PromptSet
from runner.rollout.attempt import attempt
from runner.sandbox.base import Backend
from runner.schema import Config


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """Plays and grades episodes of one client under one recipe."""

    config: Config
    client: Client
    backend: Backend
    prompts: PromptSet
    role: str = "solve"
    """The first part of journal slots."""

    def episode(self, task: Task, sample: int) -> Episode:
        """Raises InfraError (try the episode again), UserError, BudgetExceeded, ReplayMiss."""
        harness = Harness(self.config.agent, task.instruction, self.prompts)
        call = Call(slot=f"{self.role}/{task.slot}/{sample}", scope=self._scope(task), temperature=None)
        return attempt(task, sample, harness, self.client, call, self.backend).episode

    def _scope(self, task: Task) -> str:
        return fingerprint(task.id, plain(self.config.agent), self.prompts.digest, sandbox_world(self.config))
