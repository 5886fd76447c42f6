"""One solver episode: build (or find) the image, act, grade."""

from dataclasses import dataclass

from runner.agent.harness import Harness
from runner.agent.loop import Call, play
from runner.domain.episode import Episode
from runner.domain.errors import EngineError
from runner.domain.plain import fingerprint, plain
from runner.domain.task import Task
from runner.grading.grade import grade, settle
from runner.llm.base import Client
from runner.phases.base import sandbox_world
from runner.prompts import PromptSet
from runner.sandbox.base import Backend, BuildFailure, Image
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
        image = self._image(task)
        harness = Harness(self.config.agent, task.instruction, self.prompts)
        call = Call(slot=f"{self.role}/{task.slot}/{sample}", scope=self._scope(task), temperature=None)
        with self.backend.start(image) as sandbox:
            played = play(harness, self.client, sandbox, call)
            verdict = grade(task, sandbox, self.backend)
        verdict = settle(task, verdict, self.backend, image)
        return Episode(
            task_id=task.id,
            sample=sample,
            outcome=verdict.outcome,
            end=played.end,
            turns=played.turns,
            prompt=played.prompt,
            verdict=verdict.log[-2000:],
            seconds=round(played.seconds, 3),
        )

    def _image(self, task: Task) -> Image:
        image = self.backend.build(task.environment, timeout=task.limits.build_seconds)
        if isinstance(image, BuildFailure):
            # It was built when the task was made: that it does not build now is no fault of the solver's.
            raise EngineError(f"the environment of task {task.id} no longer builds: {image.log[-300:]}")
        return image

    def _scope(self, task: Task) -> str:
        return fingerprint(task.id, plain(self.config.agent), self.prompts.digest, sandbox_world(self.config))
