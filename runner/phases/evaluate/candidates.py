"""Who is scored: the recipe's own policies, as far as it has them, and models that the recipe names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runner.agent.harness import PROMPTS, opening
from runner.domain.task import Task
from runner.llm.base import Message
from runner.phases.base import Context
from runner.phases.dataset.openrlhf import export_openrlhf
from runner.phases.policy import MODEL, base_policy
from runner.phases.split import read_split, split_tasks
from runner.prompts import PromptSet
from runner.schema import Config, Model
from runner.training.serve import policy_model


class Kind(StrEnum):
    """What a scored model is to its recipe."""

    BASE = "base"
    """Untrained."""
    SFT = "sft"
    PPO = "ppo"
    CHECKPOINT = "checkpoint"
    """Exported while PPO was under way."""
    SOLVER = "solver"
    """The filter's: its episodes of the scored tasks, not asked again."""
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model to score."""

    name: str
    """``base``, ``sft``, ``ppo``, ``ppo@40`` (a checkpoint and its step) or a name from the recipe."""
    kind: Kind
    model: Model
    step: int | None = None

    @property
    def role(self) -> str:
        """Its key in the recipe, for messages and its server's log."""
        return f"eval.dev.models.{self.name}" if self.kind is Kind.OTHER else f"eval.dev.policies.{self.name}"

    @property
    def is_policy(self) -> bool:
        """Served by us, so that it costs nothing."""
        return self.kind is not Kind.OTHER


def candidates(context: Context) -> list[Candidate]:
    """Everybody who is asked, in the order base, sft, checkpoints by step, ppo, then the recipe's own names."""
    assert context.config.eval is not None
    dev = context.config.eval.dev
    assert dev is not None
    others = [Candidate(name=name, kind=Kind.OTHER, model=model) for name, model in dev.models.items()]
    return [*policies(context, dev.policies, checkpoints=dev.checkpoints), *others]


def policies(context: Context, wanted: Sequence[str], *, checkpoints: bool) -> Iterator[Candidate]:
    """The recipe's own among ``wanted``; none where it has no policy."""
    config = context.config
    if not config.training.policy:
        return
    if "base" in wanted:
        yield _served(config, "base", Kind.BASE, _base_path(context))
    if "sft" in wanted and "sft" in context.upstream:
        yield _served(config, "sft", Kind.SFT, str(context.upstream["sft"] / MODEL))
    if "ppo" in wanted and "ppo" in context.upstream:
        if checkpoints:
            for step, path in exported(context.upstream["ppo"]):
                yield _served(config, f"ppo@{step}", Kind.CHECKPOINT, str(path), step)
        yield _served(config, "ppo", Kind.PPO, str(context.upstream["ppo"] / MODEL))


def exported(ppo: Path) -> list[tuple[int, Path]]:
    """(step, folder) of the exports that PPO kept, in order."""
    found = ((re.search(r"step(\d+)_hf$", path.name), path) for path in (ppo / "checkpoints").glob("*_hf"))
    return sorted((int(match[1]), path) for match, path in found if match)


def _served(config: Config, name: str, kind: Kind, path: str, step: int | None = None) -> Candidate:
    return Candidate(name=name, kind=kind, model=policy_model(config, path), step=step)


def _base_path(context: Context) -> str:
    """Where a training phase made the base policy it is there; else its name, or it is made now."""
    for phase in ("sft", "ppo"):
        made = context.upstream.get(phase, Path()) / "base"
        if (made / "config.json").is_file():
            return str(made)
    text = context.folder / "prompts.jsonl"
    if not text.exists():
        dataset = context.upstream["dataset"]
        export_openrlhf(split_tasks(dataset, read_split(dataset)["train"]), text, _Render(context))
    return base_policy(context, text)


@dataclass(frozen=True)
class _Render:
    """A task's opening messages."""

    context: Context

    def __call__(self, task: Task) -> list[Message]:
        agent = self.context.config.agent
        return opening(agent, task.instruction, PromptSet.open(PROMPTS, agent.prompt))
