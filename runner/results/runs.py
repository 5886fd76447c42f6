"""Finding a run, a task or an episode from the few characters a person types."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.domain.episode import Episode
from runner.domain.errors import UserError
from runner.pipeline.layout import Outputs, RunFolder
from runner.schema import Config
from runner.store.episodes import read_episodes
from runner.store.tasks import find_tasks, is_task


@dataclass(frozen=True)
class Run:
    """A run on disk."""

    folder: RunFolder
    outputs: Outputs
    state: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.path.name

    def phase_folder(self, phase: str) -> Path | None:
        """The results of a phase, finished or begun; None when it never started."""
        known = self.state["phases"].get(phase)
        if known is None:
            return None
        final = self.outputs.store.folder(phase, known["fingerprint"])
        begun = final.with_name(f"{final.name}.partial")
        return final if final.is_dir() else begun if begun.is_dir() else None

    def config(self) -> Config:
        """The recipe as it was frozen."""
        from runner.compose import compose

        return compose(str(self.folder.recipe))


def all_runs(outputs: Path) -> list[Run]:
    """Every run below an outputs folder, the latest last. Raises UserError when there is none."""
    root = Outputs(outputs.absolute())
    found = sorted((root.root / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UserError(f"no runs in {outputs}; `endless run quickstart` makes one (or name the folder: --outputs)")
    return [Run(RunFolder(path.parent), root, json.loads(path.read_text(encoding="utf-8"))) for path in found]


def find_run(outputs: Path, name: str) -> Run:
    """The run whose name starts with ``name``; the latest for an empty name. Raises UserError."""
    runs = all_runs(outputs)
    if not name:
        return runs[-1]
    matching = [run for run in runs if run.name.startswith(name)]
    if not matching:
        raise UserError(f"no run {name!r} in {outputs}; there are {', '.join(run.name for run in runs)}")
    return matching[-1]


def find_task_folder(run: Run, text: str) -> Path:
    """A task by id, by the start of its id, or by its draw's number (``3``). Raises UserError."""
    folders = list(_task_folders(run))
    matching = [folder for folder in folders if _means(text, folder.name)]
    if not matching:
        names = ", ".join(folder.name for folder in folders[:20])
        raise UserError(f"no task {text!r} in run {run.name}; there are {names or 'none yet'}")
    return matching[0]


def _task_folders(run: Run) -> Iterator[Path]:
    """The dataset's tasks first: they know their pass rates."""
    for phase in ("dataset", "generate"):
        folder = run.phase_folder(phase)
        if folder is not None and (folder / "tasks").is_dir():
            yield from (path for path in find_tasks(folder / "tasks") if is_task(path))


def _means(text: str, name: str) -> bool:
    draw = name.partition("-")[0]
    return name.startswith(text) or (text.isdecimal() and draw.isdecimal() and int(text) == int(draw))


def find_episode(run: Run, text: str) -> Episode:
    """An episode by ``TASK/SAMPLE``. Raises UserError."""
    task, slash, sample = text.rpartition("/")
    if not slash or not sample.isdecimal():
        raise UserError(f"an episode is TASK/SAMPLE, such as 3/0; not {text!r}")
    folder = run.phase_folder("filter")
    if folder is None:
        raise UserError(f"run {run.name} has no episodes yet")
    seen = []
    for episode in read_episodes(folder / "episodes.jsonl"):
        if _means(task, episode.task_id):
            if episode.sample == int(sample):
                return episode
            seen.append(episode.sample)
    known = f"its samples are {', '.join(map(str, sorted(seen)))}" if seen else "no task of that name was tried"
    raise UserError(f"no episode {text} in run {run.name}: {known}")
