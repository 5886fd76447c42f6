"""The phase: n episodes per task, streaming, then which tasks stay."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.agent.harness import PROMPTS
from runner.domain.plain import plain
from runner.phases.base import Context, Estimate, model_identity, sandbox_identity
from runner.phases.estimates import episodes_estimate
from runner.phases.filter.predicates import parse_all
from runner.phases.filter.report import EPISODES, TASKS
from runner.phases.filter.report import report as make_report
from runner.phases.generate.tasks import kept_tasks
from runner.phases.play import Book, Job, Player
from runner.phases.summary import TaskSummary, summarise
from runner.prompts import PromptSet
from runner.schema import Config
from runner.store.jsonl import write_rows


class FilterPhase:
    """Verified tasks -> solvable tasks, with pass@k."""

    name = "filter"
    version = 1
    upstream: tuple[str, ...] = ("generate",)

    def reads(self, config: Config) -> Any:
        return {
            "solver": model_identity(config.models.solver),
            "sandbox": sandbox_identity(config),
            "agent": plain(config.agent),
            "filter": plain(config.filter),
            "prompts": PromptSet.open(PROMPTS, config.agent.prompt).digest,
        }

    def run(self, context: Context) -> None:
        tasks = list(kept_tasks(context.upstream["generate"]))
        if not (context.folder / TASKS).exists():
            book = self._run_episodes(context, tasks)
            write_rows(context.folder / TASKS, self._judge(context.config, tasks, book))

    report = staticmethod(make_report)

    def estimate(self, config: Config, items: int) -> Estimate:
        return episodes_estimate(config, config.models.solver, items * config.filter.n)

    def _run_episodes(self, context: Context, tasks: list[Path]) -> Book:
        settings, client = context.config.filter, context.resources.client("solver")
        book = Book.read(context.folder / EPISODES)
        player = Player(context, client, book, phase=self.name)
        n, first = settings.n, settings.early_stop or settings.n
        context.watcher.begin(self.name, len(tasks) * n, len(book))
        player.play(Job(task, range(s, s + 1)) for task in tasks for s in range(first))
        if first < n:
            player.play(Job(task, range(first, n), until_pass=True) for task in tasks if not book.passed(task.name))
        context.watcher.end(self.name)
        player.check_losses(len(tasks) * n)
        return book

    def _judge(self, config: Config, tasks: list[Path], book: Book) -> Iterator[dict[str, Any]]:
        predicates = parse_all(config.filter.keep, config.filter.n, config.filter.early_stop)
        for task in tasks:
            summary = summarise(task.name, book.facts[task.name].values(), config.filter.early_stop)
            failed = [str(p) for p in predicates if not p.holds(summary)]
            yield {**plain(summary), **_pass_at(summary, config.filter.n), "kept": not failed, "failed": failed}


def _pass_at(summary: TaskSummary, n: int) -> dict[str, Any]:
    ks = range(1, min(n, summary.estimate_n) + 1)
    return {"pass_rate": summary.pass_rate, "pass_at": {str(k): round(summary.pass_at(k), 6) for k in ks}}
