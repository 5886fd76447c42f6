"""The phase: prompts, executor settings and a policy for OpenRLHF, then its training."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import runner.training.executor as executor
from runner.agent.harness import PROMPTS, opening
from runner.domain.episode import Episode
from runner.domain.errors import EndlessError
from runner.domain.plain import plain
from runner.domain.task import Task
from runner.llm.base import Message
from runner.phases.base import Context, Estimate, sandbox_identity
from runner.phases.dataset.openrlhf import export_openrlhf
from runner.phases.policy import MODEL, base_policy, policy_identity
from runner.phases.split import read_split, split_tasks
from runner.phases.training_run import report as make_report
from runner.phases.training_run import run_training
from runner.prompts import PromptSet
from runner.schema import Config
from runner.schema_training import Ppo
from runner.store.episodes import episode_of
from runner.store.jsonl import read_lines, write_rows
from runner.training.compile import Facts, compile_ppo
from runner.training.compile.layout import ppo_layout
from runner.training.executor.settings import ExecutorSettings, Recipe, write_settings
from runner.training.figures import check_sanity
from runner.training.figures.follow import Point

log = logging.getLogger(__name__)

PROMPT_FILE, DEV_FILE, EPISODES = "prompts.jsonl", "dev.jsonl", "episodes"


class PpoPhase:
    """Training tasks and a policy -> a policy that solves more of them."""

    name = "ppo"
    version = 1
    upstream: tuple[str, ...] = ("dataset", "sft")

    def reads(self, config: Config) -> Any:
        return {
            "ppo": plain(config.ppo),
            "policy": policy_identity(config),
            "agent": plain(config.agent),
            "sandbox": sandbox_identity(config),
            "prompts": PromptSet.open(PROMPTS, config.agent.prompt).digest,
        }

    def run(self, context: Context) -> None:
        facts = self._facts(context)
        sanity = _ppo(context).sanity

        def check(points: Sequence[Point]) -> None:
            check_sanity(points, sanity)

        try:
            run_training(context, self.name, facts, compile_ppo, check=check, env=self._settings(context))
        finally:
            _remove_sandboxes(context)

    def report(self, config: Config, folder: Path, fingerprint: str) -> Any:
        episodes = sample_episodes(folder / EPISODES, config.tracking.episode_traces)
        return make_report(config, self.name, folder, fingerprint, episodes)

    def estimate(self, config: Config, items: int) -> Estimate:
        return Estimate()

    def _facts(self, context: Context) -> Facts:
        folder, dataset = context.folder, context.upstream["dataset"]
        split = read_split(dataset)
        rows = self._export(context, split["train"], folder / PROMPT_FILE)
        eval_rows = self._export(context, split["dev"], folder / DEV_FILE)
        facts = Facts(
            model=self._start(context),
            data=folder / PROMPT_FILE,
            rows=rows,
            eval_data=folder / DEV_FILE,
            eval_rows=eval_rows,
            checkpoints=folder / "checkpoints",
            output=folder / MODEL,
            tensorboard=folder / "tensorboard",
            agent_func=Path(executor.__file__).with_name("agent_func.py"),
        )
        _keep_first(facts.data, compile_ppo(context.config, facts).rows)
        return facts

    def _start(self, context: Context) -> str:
        """SFT's policy where the recipe has one."""
        sft = context.upstream.get("sft")
        return str(sft / MODEL) if sft is not None else base_policy(context, context.folder / PROMPT_FILE)

    def _export(self, context: Context, ids: list[str], path: Path) -> int:
        prompts = PromptSet.open(PROMPTS, context.config.agent.prompt)

        def render(task: Task) -> list[Message]:
            return opening(context.config.agent, task.instruction, prompts)

        return export_openrlhf(split_tasks(context.upstream["dataset"], ids), path, render)

    def _settings(self, context: Context) -> dict[str, str]:
        config, ppo = context.config, _ppo(context)
        settings = ExecutorSettings(
            recipe=Recipe(agent=config.agent, sandbox=config.sandbox, executor=config.executor, ppo=ppo),
            tasks=context.upstream["dataset"] / "tasks",
            episodes=context.folder / EPISODES,
            engines=ppo_layout(config.training, ppo).engines,
            run_label=context.run_label,
            cache=context.cache,
        )
        return write_settings(context.folder / "executor.json", settings)


def _ppo(context: Context) -> Ppo:
    assert context.config.ppo is not None
    return context.config.ppo


def _remove_sandboxes(context: Context) -> None:
    """Of rollout workers that were killed. Those of other nodes go when a worker starts there again."""
    if context.config.training.ray_address is not None:
        return
    try:
        context.resources.backend().reap()
    except EndlessError as error:
        log.warning("sandboxes may have stayed behind, for a later run to remove: %s", str(error))


def _keep_first(path: Path, rows: int) -> None:
    """Leave the first rows of a prompt file: what divides evenly into steps."""
    found = list(read_lines(path))
    if len(found) > rows:
        write_rows(path, found[:rows])


def sample_episodes(folder: Path, count: int) -> list[Episode]:
    """The last rollouts of a training, each of another task while there are enough."""
    latest: dict[str, Episode] = {}
    for path in sorted(folder.glob("episodes-*.jsonl")):
        for row in read_lines(path):
            known = {name: value for name, value in row.items() if name in Episode.__dataclass_fields__}
            latest[row["task_id"]] = episode_of(known)
    return list(latest.values())[:count]
