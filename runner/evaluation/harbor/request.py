"""What is asked of Harbor: one model, one harness, one set of tasks."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

from runner.domain.errors import RecipeError
from runner.domain.plain import fingerprint, plain
from runner.evaluation.harbor.settings import AgentSettings
from runner.evaluation.harbor.tasks import tasks_identity
from runner.llm.account import Account
from runner.schema import Agent, Model, Sandbox
from runner.schema_evaluation import Harness, TerminalBench

OURS = "endless"
"""The name of our own agent in a recipe."""
SILENT = ("oracle", "nop")
"""Harbor's agents that ask no model."""


@dataclass(frozen=True, kw_only=True)
class HarborRun:
    """One job of Harbor's."""

    bench: TerminalBench
    harness: Harness
    model: Model
    """Already served: Harbor starts no servers. A vLLM model needs its ``base_url``."""
    folder: Path
    """Takes the job (``harbor/``), ``trials.jsonl`` and ``episodes.jsonl``; a half-done job in it is resumed. It may be
    renamed once the run is over."""
    agent: Agent = Agent()
    """The harness's limits, as in training."""
    temperature: float | None = None
    """Of the model's replies; None: the model's own setting."""
    output_bytes: int = Sandbox().output_bytes
    account: Account
    """What our own agent asks is on it; what Harbor's agents ask is told by ``Trial.usage``."""
    retries: int = 2
    """Tries of a trial after infrastructure trouble, by Harbor itself."""

    @property
    def ours(self) -> bool:
        """Whether the agent is our own."""
        return self.harness.agent == OURS

    @property
    def asks_unseen(self) -> bool:
        """Whether the agent is one of Harbor's that asks a model, by itself."""
        return self.harness.agent not in (OURS, *SILENT)

    def settings(self) -> AgentSettings:
        """What our own agent is told. Raises RecipeError for arguments that are no keys of ``agent``."""
        known = {one.name for one in fields(Agent)}
        unknown = sorted(set(self.harness.kwargs) - known)
        if unknown:
            raise RecipeError(
                f"eval.terminalbench.harnesses: {OURS} takes the keys of `agent` as kwargs, not {', '.join(unknown)}"
            )
        return AgentSettings(
            agent=replace(self.agent, **self.harness.kwargs),
            model=self.model,
            temperature=self.temperature,
            output_bytes=self.output_bytes,
            account=self.account,
            scope=fingerprint(tasks_identity(self.bench), plain(self.agent), self.harness.kwargs),
        )
