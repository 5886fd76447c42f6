"""Episodes of one model on many tasks: played in the pool, written down one by one, gone on with after a crash."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.agent.harness import PROMPTS
from runner.domain.episode import Episode, Outcome
from runner.domain.errors import Incomplete
from runner.domain.plain import plain
from runner.llm.base import Client
from runner.phases.attempt import Attempt
from runner.phases.base import Context
from runner.phases.summary import EpisodeFacts, facts_of
from runner.phases.work import Lost, run_all
from runner.prompts import PromptSet
from runner.store.jsonl import append, read_lines
from runner.store.tasks import read_task


@dataclass(frozen=True)
class Job:
    """Samples of a task to run in turn. ``until_pass`` ends after the first that passes."""

    folder: Path
    samples: range
    until_pass: bool = False


@dataclass
class Book:
    """A file of episodes, and the facts of every one so far: a few numbers each."""

    path: Path
    facts: dict[str, dict[int, EpisodeFacts]] = field(default_factory=lambda: defaultdict(dict))
    lost: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Book":
        """What an earlier attempt wrote down."""
        book = cls(path)
        for row in read_lines(path):
            book._add(row)
        return book

    def write(self, episode: Episode) -> None:
        """Raises StorageError."""
        row = plain(episode)
        append(self.path, row)
        self._add(row)

    def _add(self, row: dict[str, Any]) -> None:
        facts = facts_of(row)
        self.facts[facts.task_id][facts.sample] = facts

    def has(self, task_id: str, sample: int) -> bool:
        return sample in self.facts[task_id]

    def passed(self, task_id: str) -> bool:
        return any(f.outcome is Outcome.PASS for f in self.facts[task_id].values())

    def __len__(self) -> int:
        return sum(map(len, self.facts.values()))


class Player:
    """Plays jobs and keeps the book. An episode is on disk before the next one of its job starts."""

    def __init__(self, context: Context, client: Client, book: Book, *, phase: str, role: str = "solve") -> None:
        """``role`` is the first part of the episodes' journal slots."""
        self.book = book
        self._context, self._phase = context, phase
        self._attempt = Attempt(
            config=context.config,
            client=client,
            backend=context.resources.backend(),
            prompts=PromptSet.open(PROMPTS, context.config.agent.prompt),
            role=role,
        )

    def play(self, jobs: Iterable[Job]) -> None:
        """All that is missing. Raises what ``run_all`` raises."""
        todo = (job for job in jobs if self._missing(job))
        run_all(todo, self._work, self._on_end, executor=self._context.config.executor, stop=self._context.stop)

    def check_losses(self, lost_of: int) -> None:
        """Raises Incomplete when infrastructure took more episodes than ``executor.infra_share`` allows."""
        lost = self.book.lost
        if len(lost) > self._context.config.executor.infra_share * lost_of:
            raise Incomplete(
                f"{len(lost)} of {lost_of} episodes were lost to infrastructure trouble; "
                f"run the same command again to retry them. The first: {next(iter(lost.values()))}"
            )

    def _missing(self, job: Job) -> list[int]:
        return [sample for sample in job.samples if not self.book.has(job.folder.name, sample)]

    def _work(self, job: Job) -> None:
        task = read_task(job.folder)
        for sample in self._missing(job):
            if job.until_pass and self.book.passed(task.id):
                return
            self._record(self._attempt.episode(task, sample))

    def _record(self, episode: Episode) -> None:
        self.book.write(episode)
        label = "pass" if episode.outcome is Outcome.PASS else f"{episode.outcome}:{episode.end}"
        self._context.watcher.advance(self._phase, episode.outcome, label)

    def _on_end(self, job: Job, result: Lost | None) -> None:
        if isinstance(result, Lost):
            for sample in self._missing(job):
                self.book.lost[f"{job.folder.name}/{sample}"] = result.cause
                self._context.watcher.advance(self._phase, Outcome.INFRA, "infra")
