"""How much data training will get, before it runs: counted in the phases that are done, expected from the others."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.phases.dataset.split import split
from runner.phases.filter.report import TASKS
from runner.pipeline.compile import Step
from runner.pipeline.estimate import expected_tasks
from runner.schema import Config
from runner.schema_training import Sft
from runner.store.artifacts import Store
from runner.store.jsonl import read_lines
from runner.training.compile import Counts

EXPECTED_SOLVABLE_RATE = 0.85
"""Of tasks that the filter keeps."""
EXPECTED_PASS_RATE = 0.5
"""Of the filter's episodes of a task that it kept."""


def training_counts(config: Config, steps: Sequence[Step], store: Store) -> Counts:
    """Training tasks, dev tasks and episodes for SFT."""
    folders = {step.name: store.folder(step.name, step.fingerprint) for step in steps}
    done = {name: folder for name, folder in folders.items() if folder.is_dir()}
    train, dev = _read_split(done["dataset"]) if "dataset" in done else _expected_split(config, steps, store)
    passing = _passing(config, config.sft, done, train) if config.sft is not None else 0
    return Counts(train=len(train), dev=len(dev), passing=passing, known="dataset" in done)


def _read_split(folder: Path) -> tuple[list[str], list[str]]:
    found = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    return found["train"], found["dev"]


def _expected_split(config: Config, steps: Sequence[Step], store: Store) -> tuple[list[str], list[str]]:
    kept = round(EXPECTED_SOLVABLE_RATE * expected_tasks(config, steps, store))
    settings = config.dataset
    ids = map(str, range(kept))
    return split(ids, dev_tasks=settings.dev_tasks, max_dev_share=settings.max_dev_share, seed=settings.split_seed)


def _passing(config: Config, sft: Sft, done: Mapping[str, Path], train: Sequence[str]) -> int:
    """Passing episodes of the training tasks, at most so many of each."""
    if sft.episodes != "solver":
        return sum(1 for _ in read_lines(Path(sft.episodes)))
    per_task = [round(EXPECTED_PASS_RATE * config.filter.n)] * len(train)
    if "filter" in done:
        known = {row["task_id"]: row["passes"] for row in read_lines(done["filter"] / TASKS)}
        per_task = [known.get(task, 0) for task in train]
    return sum(passes if sft.max_per_task is None else min(passes, sft.max_per_task) for passes in per_task)
