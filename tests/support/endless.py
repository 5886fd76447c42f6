"""The `endless` command as a person runs it: in a process of its own, in a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.loopback import Loopback
from support.recorded import RecordedReplies

from runner.compose import compose
from runner.pipeline.compile import compile_recipe
from runner.pipeline.run import read_report
from runner.share import share_dir
from runner.store.artifacts import Store
from runner.store.jsonl import read_lines
from runner.taxonomy import draw

RECORDINGS = share_dir("recipes") / "recordings" / "quickstart"
SETTINGS = ("build_network", "address")


@dataclass(frozen=True)
class Workplace:
    """A folder to run recipes in."""

    folder: Path
    sandbox: tuple[str, ...]
    """Overrides that choose the sandbox."""
    environment: Mapping[str, str] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    """A program, with its arguments, that the command is started through (``nsenter``)."""

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command and leave it running."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [*self.inside, sys.executable, "-m", "runner.cli", *words],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def endless(self, *words: str, timeout: float = 280) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        process = self.start(*words)
        output, _ = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def run(self, recipe: str, *overrides: str) -> str:
        """Run a recipe, which must end well; returns what it printed."""
        done = self.endless("run", recipe, *self.sandbox, *overrides)
        assert done.returncode == 0, done.stdout
        return done.stdout

    @property
    def store(self) -> Path:
        return self.folder / "outputs" / "store"

    def results(self) -> "Results":
        """What the only finished run left behind."""
        return Results(*(_only(self.store / phase) for phase in ("generate", "filter", "dataset")))

    def metrics(self, recipe: str, *overrides: str) -> dict[str, float]:
        """What the finished phases of a recipe report."""
        config = compose(recipe, [*self.sandbox, *overrides])
        store = Store(self.store)
        found: dict[str, float] = {}
        for step in compile_recipe(config):
            found |= read_report(step, config, store.folder(step.name, step.fingerprint)).metrics
        return found

    def journal(self) -> list[dict[str, Any]]:
        """Every line of the journal."""
        return [row for path in sorted((self.store / "journal").rglob("*.jsonl")) for row in read_lines(path)]


@dataclass(frozen=True)
class Results:
    """The finished folders of a run's phases."""

    generate: Path
    filter: Path
    dataset: Path

    def draws(self) -> dict[int, tuple[str, str, dict[str, int]]]:
        """Draw -> (reason, task, rounds)."""
        rows = read_lines(self.generate / "records.jsonl")
        return {row["draw"]: (row["reason"], row["task_id"], row["rounds"]) for row in rows}

    def tasks(self) -> dict[str, tuple[bool, int, dict[str, float]]]:
        """Task -> (kept, passes, pass@k)."""
        rows = read_lines(self.filter / "tasks.jsonl")
        return {row["task_id"]: (row["kept"], row["passes"], row["pass_at"]) for row in rows}

    def episodes(self) -> dict[str, tuple[Any, ...]]:
        """Episode -> its outcome, its end and every command with its exit code. Fails when one occurs twice."""
        found: dict[str, tuple[Any, ...]] = {}
        for row in read_lines(self.filter / "episodes.jsonl"):
            name = f"{row['task_id']}/{row['sample']}"
            assert name not in found, f"{name} was recorded twice"
            turns = tuple((turn["command"], turn["exit_code"]) for turn in row["turns"])
            found[name] = (row["outcome"], row["end"], turns)
        return found

    def split(self) -> Any:
        return json.loads((self.dataset / "split.json").read_text())


def quickstart_server(*, spread: bool = False, **options: Any) -> Loopback:
    """A loopback server that gives the quickstart's recorded replies, through any API."""
    config = compose("quickstart")
    labels = [draw(config.taxonomy, config.seed, index) for index in range(config.generate.draws)]
    return Loopback(reply=RecordedReplies(RECORDINGS, labels, spread=spread), **options)


def live_overrides(
    url: str, *, name: str = "test-model", roles: tuple[str, ...] = ("generator", "solver")
) -> list[str]:
    """Overrides that point both roles of `model=compatible` at a server."""
    words = ["model=compatible"]
    for role in roles:
        words += [f"models.{role}.base_url={url}", f"models.{role}.name={name}"]
    return words


def _only(folder: Path) -> Path:
    found = [path for path in folder.iterdir() if path.is_dir() and path.suffix != ".partial"]
    assert len(found) == 1, f"{len(found)} finished results in {folder}"
    return found[0]
