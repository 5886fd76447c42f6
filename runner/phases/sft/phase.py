"""The phase: choose conversations, make the policy, train it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.agent.harness import PROMPTS, opening
from runner.domain.errors import Incomplete
from runner.domain.plain import plain
from runner.phases.base import Context, Estimate
from runner.phases.filter.report import EPISODES
from runner.phases.policy import MODEL, base_policy, policy_identity, trainer_python
from runner.phases.sft.conversations import conversation, pick
from runner.phases.split import read_split, split_tasks
from runner.phases.training_run import report as make_report
from runner.phases.training_run import run_training
from runner.prompts import PromptSet
from runner.schema import Config
from runner.store.episodes import read_episodes
from runner.store.jsonl import write_rows
from runner.training.compile import Facts, compile_sft
from runner.training.environment import python_path
from runner.training.figures.follow import Point
from runner.training.launch import run_program

ALL, DATA = "conversations.jsonl", "train.jsonl"


class SftPhase:
    """Passing episodes -> a policy to begin PPO with."""

    name = "sft"
    version = 1
    upstream: tuple[str, ...] = ("filter", "dataset")

    def reads(self, config: Config) -> Any:
        return {"sft": plain(config.sft), "policy": policy_identity(config), "context": config.agent.context_tokens}

    def run(self, context: Context) -> None:
        data = context.folder / ALL
        if not data.exists():
            self._write_conversations(context, data)
        model = base_policy(context, data)
        rows = self._fitting(context, model, data)
        facts = Facts(
            model=model,
            data=context.folder / DATA,
            rows=rows,
            checkpoints=context.folder / "checkpoints",
            output=context.folder / MODEL,
            tensorboard=context.folder / "tensorboard",
        )
        run_training(context, self.name, facts, compile_sft, check=_nothing)

    def report(self, config: Config, folder: Path, fingerprint: str) -> Any:
        return make_report(config, self.name, folder, fingerprint)

    def estimate(self, config: Config, items: int) -> Estimate:
        return Estimate()

    def _write_conversations(self, context: Context, target: Path) -> None:
        sft, agent = context.config.sft, context.config.agent
        assert sft is not None
        if sft.episodes != "solver":
            target.write_bytes(Path(sft.episodes).read_bytes())
            return
        prompts = PromptSet.open(PROMPTS, agent.prompt)
        folder = context.upstream["dataset"]
        tasks = {task.id: task for task in split_tasks(folder, read_split(folder)["train"])}
        chosen = pick(read_episodes(context.upstream["filter"] / EPISODES), tasks, sft.max_per_task)
        rows = (conversation(e, opening(agent, tasks[e.task_id].instruction, prompts)) for e in chosen)
        write_rows(target, rows)

    def _fitting(self, context: Context, model: str, data: Path) -> int:
        """How many conversations fit the context; the others are left out. Raises Incomplete when none does."""
        config = context.config
        assert config.sft is not None
        limit = config.sft.max_tokens or config.agent.context_tokens
        arguments = (model, str(limit), str(data), str(context.folder / DATA))
        module = "runner.training.policies.fit"
        said = run_program(trainer_python(config), module, *arguments, env={"PYTHONPATH": python_path("")})
        kept, dropped = map(int, said.split()[-2:])
        if not kept:
            raise Incomplete(f"sft: none of {dropped} passing episodes fits {limit} tokens (sft.max_tokens)")
        return kept


def _nothing(points: Sequence[Point]) -> None:
    """SFT has no stops of its own."""
