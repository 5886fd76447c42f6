"""``endless tasks export --format harbor|openrlhf|hf --to FOLDER [SOURCE...]``."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from runner.agent.harness import PROMPTS, opening
from runner.cli.console import console
from runner.domain.errors import UserError
from runner.domain.task import Task
from runner.llm.base import Message
from runner.phases.dataset.export import Options, export
from runner.prompts import PromptSet
from runner.results.runs import Run, find_run
from runner.schema import Agent
from runner.share import share_dir
from runner.store.tasks import iter_tasks, read_task


def main(arguments: argparse.Namespace) -> int:
    agent = Agent()
    splits: dict[str, Iterable[Task]]
    if arguments.source:
        splits = {"": _from_folders(arguments.source)}
    else:
        run = find_run(Path(arguments.outputs), arguments.run)
        agent, splits = run.config().agent, _from_run(run)
    target = Path(arguments.to)
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty; name a new folder")
    base = (share_dir("sandboxes") / "base" / "Dockerfile").read_text(encoding="utf-8")
    options = Options(render=lambda task: _render(agent, task), base_dockerfile=base, truth=arguments.truth)
    counts = export(splits, arguments.format, target, options)
    told = ", ".join(f"{count} {name}".strip() for name, count in counts.items())
    console().print(f"wrote {told} tasks as {arguments.format} to {target}", markup=False)
    return 0


def _render(agent: Agent, task: Task) -> list[Message]:
    return opening(agent, task.instruction, PromptSet.open(PROMPTS, agent.prompt))


def _from_folders(sources: list[str]) -> Iterable[Task]:
    tasks = [task for source in sources for task in iter_tasks(Path(source))]
    if not tasks:
        raise UserError(f"no tasks in {', '.join(sources)}: a task is a folder with a task.toml and an instruction.md")
    return tasks


def _from_run(run: Run) -> dict[str, Iterable[Task]]:
    folder = run.phase_folder("dataset")
    if folder is None or not (folder / "split.json").exists():
        raise UserError(f"run {run.name} has no dataset yet; name the task folders to export, or finish the run")
    split = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    if not split["train"] and not split["dev"]:
        raise UserError(f"the dataset of run {run.name} is empty; `endless show run {run.name}` says why")
    return {name: (read_task(folder / "tasks" / task) for task in split[name]) for name in ("train", "dev")}
