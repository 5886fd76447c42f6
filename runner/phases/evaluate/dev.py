"""Scores on the recipe's own tasks: every model plays them in the harness that the filter and training use."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from runner.domain.task import Labels
from runner.phases.base import Context
from runner.phases.evaluate.candidates import Candidate, Kind, candidates
from runner.phases.evaluate.scores import best, compare, score
from runner.phases.filter.report import EPISODES as FILTERED
from runner.phases.play import Book, Job, Player
from runner.phases.split import read_split, split_tasks
from runner.phases.summary import EpisodeFacts, facts_of
from runner.schema_evaluation import Dev
from runner.store.jsonl import read_lines, write_json

SCORES, MODELS, SOLVER = "scores.json", "models.json", "solver"
_TRAINED = (Kind.BASE, Kind.SFT, Kind.CHECKPOINT, Kind.PPO)


def episodes_file(folder: Path, name: str) -> Path:
    """The episodes of a model in the phase's folder."""
    return folder / "dev" / name / "episodes.jsonl"


def evaluate_dev(context: Context, dev: Dev) -> None:
    """Play what is missing, model by model, then write the scores. Raises what ``Player`` raises."""
    ids = read_split(context.upstream["dataset"])[dev.split.name]
    people = candidates(context)
    rows = [_row(person) for person in people]
    books = {person.name: Book.read(episodes_file(context.folder, person.name)) for person in people}
    wanted = len(people) * len(ids) * dev.samples
    context.watcher.begin("evaluate", wanted, sum(map(len, books.values())))
    facts = {person.name: _play(context, person, books[person.name], ids, dev) for person in people}
    if dev.solver and "filter" in context.upstream:
        rows.append({"name": SOLVER, "kind": Kind.SOLVER.value, "model": "", "step": None})
        facts[SOLVER] = _solver(context.upstream["filter"], set(ids))
    labels = {task.id: task.labels for task in split_tasks(context.upstream["dataset"], ids)}
    write_json(context.folder / MODELS, rows)
    write_json(context.folder / "dev" / SCORES, _scores(context, facts, labels, people, dev))


def _row(person: Candidate) -> dict[str, Any]:
    return {"name": person.name, "kind": person.kind.value, "model": person.model.name, "step": person.step}


def _jobs(context: Context, ids: Sequence[str], dev: Dev) -> list[Job]:
    tasks = context.upstream["dataset"] / "tasks"
    return [Job(tasks / task, range(s, s + 1)) for task in ids for s in range(dev.samples)]


def _play(context: Context, person: Candidate, book: Book, ids: Sequence[str], dev: Dev) -> list[EpisodeFacts]:
    """A model's attempts at all tasks. Its server is up only while something is missing."""
    book.path.parent.mkdir(parents=True, exist_ok=True)
    if any(not book.has(job.folder.name, job.samples[0]) for job in _jobs(context, ids, dev)):
        with context.resources.borrow(person.model, person.role, free=person.is_policy) as client:
            player = Player(context, client, book, phase="evaluate", role=f"eval-{person.name}")
            player.play(_jobs(context, ids, dev))
            player.check_losses(len(ids) * dev.samples)
    return [facts for samples in book.facts.values() for facts in samples.values()]


def _solver(filtered: Path, ids: set[str]) -> list[EpisodeFacts]:
    return [facts_of(row) for row in read_lines(filtered / FILTERED) if row["task_id"] in ids]


def _scores(
    context: Context,
    facts: Mapping[str, Sequence[EpisodeFacts]],
    labels: Mapping[str, Labels],
    people: Sequence[Candidate],
    dev: Dev,
) -> dict[str, Any]:
    settings = context.config.eval
    assert settings is not None
    level, seed = settings.confidence, context.config.seed if settings.seed is None else settings.seed
    models = {
        name: score(found, labels, samples=_samples(context, name, dev), level=level, seed=seed)
        for name, found in facts.items()
    }
    trained = [person.name for person in people if person.kind in _TRAINED]
    pairs = [*pairwise(trained), *_ends(trained)]
    return {
        "split": dev.split.name,
        "confidence": level,
        "models": models,
        "pairs": [compare(a, b, models, level=level, seed=seed) for a, b in pairs],
        "best": best(models, trained),
    }


def _samples(context: Context, name: str, dev: Dev) -> int:
    """Attempts of a task that were wanted."""
    return context.config.filter.n if name == SOLVER else dev.samples


def _ends(trained: Sequence[str]) -> list[tuple[str, str]]:
    """The first against the last, where that is not a pair of neighbours."""
    return [(trained[0], trained[-1])] if len(trained) > 2 else []
