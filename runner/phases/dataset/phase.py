"""The phase: kept tasks become a dataset: refused prompts named, a seeded split, and the exports."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.agent.harness import PROMPTS, opening
from runner.domain.episode import Episode, Outcome
from runner.domain.plain import plain
from runner.domain.task import Task
from runner.llm.base import Message
from runner.phases.base import Context, Estimate
from runner.phases.dataset.export import Options, export
from runner.phases.dataset.report import report as make_report
from runner.phases.dataset.split import split, too_long
from runner.phases.filter.report import EPISODES, TASKS
from runner.phases.generate.tasks import task_folder
from runner.prompts import PromptSet
from runner.schema import Config
from runner.share import share_dir
from runner.store.episodes import read_episodes
from runner.store.jsonl import read_lines, write_json
from runner.store.tasks import read_task, write_task


@dataclass(frozen=True)
class Kept:
    """A task the filter kept, and what its episodes told."""

    folder: Path
    summary: dict[str, Any]


class DatasetPhase:
    """Solvable tasks -> what training and evaluation read."""

    name = "dataset"
    version = 1
    upstream: tuple[str, ...] = ("generate", "filter")

    def reads(self, config: Config) -> Any:
        prompts = PromptSet.open(PROMPTS, config.agent.prompt)
        example = [plain(message) for message in opening(config.agent, "", prompts)]
        return {"dataset": plain(config.dataset), "prompt": example, "digest": prompts.digest}

    def run(self, context: Context) -> None:
        kept = {item.folder.name: item for item in _kept(context)}
        context.watcher.begin(self.name, len(kept), 0)
        self._write_tasks(context, kept)
        tasks = {task_id: context.folder / "tasks" / task_id for task_id in kept}
        refused = self._refused(context, tasks)
        settings = context.config.dataset
        train, dev = split(
            [task_id for task_id in tasks if task_id not in refused],
            dev_tasks=settings.dev_tasks,
            max_dev_share=settings.max_dev_share,
            seed=settings.split_seed,
        )
        self._export(context, {"train": [tasks[i] for i in train], "dev": [tasks[i] for i in dev]})
        write_json(context.folder / "split.json", {"train": train, "dev": dev, "refused": refused})
        context.watcher.end(self.name)

    report = staticmethod(make_report)

    def estimate(self, config: Config, items: int) -> Estimate:
        return Estimate()

    def _write_tasks(self, context: Context, kept: dict[str, Kept]) -> None:
        """Copy the tasks with what the filter learnt: pass rates, and a solution where the generator gave none."""
        wanted = {task_id for task_id, item in kept.items() if not read_task(item.folder).solution}
        solutions = _first_solutions(context.upstream["filter"] / EPISODES, wanted)
        for task_id, item in kept.items():
            task = read_task(item.folder)
            known = {"pass_rate": item.summary["pass_rate"], "episodes": item.summary["episodes"]}
            solution = task.solution or solutions.get(task_id, "")
            enriched = replace(task, solution=solution, metadata={**task.metadata, **known})
            write_task(context.folder / "tasks" / task_id, enriched)
            context.watcher.advance(self.name, Outcome.PASS, "written")

    def _refused(self, context: Context, tasks: dict[str, Path]) -> list[str]:
        render = _renderer(context.config)
        prompts = (
            (task_id, "\n".join(m.content for m in render(read_task(folder)))) for task_id, folder in tasks.items()
        )
        return too_long(prompts, max_tokens=context.config.dataset.max_prompt_tokens)

    def _export(self, context: Context, splits: dict[str, list[Path]]) -> None:
        base = share_dir("sandboxes") / "base" / "Dockerfile"
        options = Options(render=_renderer(context.config), base_dockerfile=base.read_text(encoding="utf-8"))
        for name in context.config.dataset.export:
            target = context.folder / "exports" / name
            shutil.rmtree(target, ignore_errors=True)
            export({split: map(read_task, folders) for split, folders in splits.items()}, name, target, options)


def _kept(context: Context) -> Iterator[Kept]:
    for row in read_lines(context.upstream["filter"] / TASKS):
        if row["kept"]:
            yield Kept(task_folder(context.upstream["generate"], row["task_id"]), row)


def _renderer(config: Config) -> Any:
    prompts = PromptSet.open(PROMPTS, config.agent.prompt)

    def render(task: Task) -> list[Message]:
        return opening(config.agent, task.instruction, prompts)

    return render


def _first_solutions(episodes: Path, wanted: set[str]) -> dict[str, str]:
    """For each wanted task the commands of its first passing episode, as a script."""
    best: dict[str, Episode] = {}
    for episode in read_episodes(episodes) if wanted else ():
        if episode.task_id in wanted and episode.outcome is Outcome.PASS:
            first = best.get(episode.task_id)
            if first is None or episode.sample < first.sample:
                best[episode.task_id] = episode
    return {task_id: _script(episode) for task_id, episode in best.items()}


def _script(episode: Episode) -> str:
    commands = [turn.command for turn in episode.turns if turn.command is not None]
    return "#!/bin/bash\n" + "".join(f"{command}\n" for command in commands)
