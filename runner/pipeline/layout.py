"""How outputs lie on disk.

::

    outputs/
      store/<phase>/<fingerprint>/     finished results, shared by all runs that need the same
      store/journal/...                every answered model call
      cache/                           images of the local backend, the grader's own Python
      runs/<recipe>-<key>/             one run: recipe.yaml (frozen), run.json (lineage), ledger.jsonl (spending)
      runs/sweep-<recipe>-<key>/       compare.html: a sweep's variants side by side
      mlflow.db, mlartifacts/          the default tracking store
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.domain.errors import StorageError
from runner.pipeline.compile import Step, run_key
from runner.schema import Config
from runner.store.artifacts import Store
from runner.store.jsonl import storage_errors, write_json, write_text


@dataclass(frozen=True)
class Outputs:
    """The outputs folder of a recipe."""

    root: Path

    @property
    def store(self) -> Store:
        return Store(self.root / "store")

    @property
    def journal(self) -> Path:
        return self.root / "store" / "journal"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    def run(self, config: Config, steps: Sequence[Step]) -> "RunFolder":
        """The folder of the run this recipe means."""
        slug = config.name.replace("/", "-")
        return RunFolder(self.root / "runs" / f"{slug}-{run_key(config, steps)}")


@dataclass(frozen=True)
class RunFolder:
    """One run's own files."""

    path: Path

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    def freeze(self, recipe: str) -> None:
        """Keep the resolved recipe, once: what ran is what this file says. Raises StorageError."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if not self.recipe.exists():
            write_text(self.recipe, recipe)

    def write_state(self, status: str, steps: Sequence[Step], store: Store, error: str = "") -> None:
        """Record the lineage: which results this run is made of."""
        phases = {
            step.name: {
                "fingerprint": step.fingerprint,
                "upstream": dict(step.upstream),
                "done": store.is_done(step.name, step.fingerprint),
            }
            for step in steps
        }
        state: dict[str, Any] = {"status": status, "phases": phases}
        write_json(self.path / "run.json", state | ({"error": error} if error else {}))

    def read_state(self) -> dict[str, Any]:
        """The lineage. Raises StorageError when the folder is no run."""
        try:
            state: dict[str, Any] = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StorageError(f"{self.path} is not a run's folder: {error}") from error
        return state
