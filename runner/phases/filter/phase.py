"""The phase: n episodes per task, streaming, then which tasks stay."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.agent.harness import PROMPTS
from runner.domain.episode import Episode, Outcome
from runner.domain.errors import Incomplete
from runner.domain.plain import plain
from runner.phases.base import Context, Estimate, model_identity, sandbox_identity
from runner.phases.filter.attempt import Attempt
from runner.phases.filter.predicates import parse_all
from runner.phases.filter.report import EPISODES, TASKS
from runner.phases.filter.report import report as make_report
from runner.phases.filter.summary import EpisodeFacts, TaskSummary, facts_of, summarise
from runner.phases.generate.tasks import kept_tasks
from runner.phases.work import Lost, run_all
from runner.prompts import PromptSet
from runner.schema import Config
from runner.store.jsonl import append, read_lines, write_rows
from runner.store.tasks import read_task

TURNS = 6
PROMPT_TOKENS = 800
TOKENS_PER_TURN = 350
OUTPUT_TOKENS = 150
"""Rough, for estimates: the quickstart's episodes have 5.6 turns, a prompt of 700 to 900 tokens and grow by about 200
tokens a turn, 64 of them written. Models that think aloud write more than its recorded replies do."""


@dataclass(frozen=True)
class Job:
    """Samples of a task to run in turn. ``until_pass`` ends after the first that passes."""

    folder: Path
    samples: range
    until_pass: bool = False


@dataclass
class Book:
    """The facts of every episode so far: a few numbers each."""

    facts: dict[str, dict[int, EpisodeFacts]] = field(default_factory=lambda: defaultdict(dict))
    lost: dict[str, str] = field(default_factory=dict)

    def add(self, facts: EpisodeFacts) -> None:
        self.facts[facts.task_id][facts.sample] = facts

    def has(self, task_id: str, sample: int) -> bool:
        return sample in self.facts[task_id]

    def passed(self, task_id: str) -> bool:
        return any(f.outcome is Outcome.PASS for f in self.facts[task_id].values())


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
        episodes, turns = items * config.filter.n, min(TURNS, config.agent.max_turns)
        return Estimate(
            calls=episodes * config.agent.max_turns,
            likely_calls=episodes * turns,
            input_tokens=episodes * sum(PROMPT_TOKENS + TOKENS_PER_TURN * turn for turn in range(turns)),
            output_tokens=episodes * turns * OUTPUT_TOKENS,
        )

    def _run_episodes(self, context: Context, tasks: list[Path]) -> Book:
        book = Book()
        for row in read_lines(context.folder / EPISODES):
            book.add(facts_of(row))
        n, first = context.config.filter.n, context.config.filter.early_stop or context.config.filter.n
        context.watcher.begin(self.name, len(tasks) * n, sum(len(f) for f in book.facts.values()))
        runner = _Runner(context, book)
        runner.run(Job(task, range(s, s + 1)) for task in tasks for s in range(first))
        if first < n:
            runner.run(Job(task, range(first, n), until_pass=True) for task in tasks if not book.passed(task.name))
        context.watcher.end(self.name)
        _check_losses(context.config, book, lost_of=len(tasks) * n)
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


def _check_losses(config: Config, book: Book, lost_of: int) -> None:
    if len(book.lost) > config.executor.infra_share * lost_of:
        cause = next(iter(book.lost.values()))
        raise Incomplete(
            f"{len(book.lost)} of {lost_of} episodes were lost to infrastructure trouble; "
            f"run the same command again to retry them. The first: {cause}"
        )


class _Runner:
    """Runs jobs in the pool and keeps the book. An episode is on disk before the next one of its job starts."""

    def __init__(self, context: Context, book: Book) -> None:
        config = context.config
        self._context, self._book = context, book
        self._attempt = Attempt(
            config=config,
            client=context.resources.client("solver"),
            backend=context.resources.backend(),
            prompts=PromptSet.open(PROMPTS, config.agent.prompt),
        )

    def run(self, jobs: Iterator[Job]) -> None:
        todo = (job for job in jobs if self._missing(job))
        run_all(todo, self._work, self._on_end, executor=self._context.config.executor, stop=self._context.stop)

    def _missing(self, job: Job) -> list[int]:
        return [s for s in job.samples if not self._book.has(job.folder.name, s)]

    def _work(self, job: Job) -> None:
        task = read_task(job.folder)
        for sample in self._missing(job):
            if job.until_pass and self._book.passed(task.id):
                return
            self._record(self._attempt.episode(task, sample))

    def _record(self, episode: Episode) -> None:
        row = plain(episode)
        append(self._context.folder / EPISODES, row)
        self._book.add(facts_of(row))
        label = "pass" if episode.outcome is Outcome.PASS else f"{episode.outcome}:{episode.end}"
        self._context.watcher.advance("filter", episode.outcome, label)

    def _on_end(self, job: Job, result: Lost | None) -> None:
        if isinstance(result, Lost):
            for sample in self._missing(job):
                self._book.lost[f"{job.folder.name}/{sample}"] = result.cause
                self._context.watcher.advance("filter", Outcome.INFRA, "infra")
