"""What the phase hands to the rollout workers: one JSON file, whose path is in their environment."""

import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.domain.errors import RecipeError
from runner.domain.plain import plain, unplain
from runner.schema import Agent, Executor, Sandbox
from runner.schema_training import Ppo
from runner.store.jsonl import write_json

VARIABLE = "ENDLESS_EXECUTOR"
"""The environment variable that holds the file's path."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The sections of the recipe that a rollout depends on."""

    agent: Agent
    sandbox: Sandbox
    executor: Executor
    ppo: Ppo


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """All that a rollout worker needs. Paths are absolute; on several nodes they lie on a shared file system."""

    recipe: Recipe
    tasks: Path
    """A folder with a Harbor folder per task, named by its id; a prompt's label is that id."""
    episodes: Path
    """The folder that workers append ``episodes-<host>-<pid>.jsonl`` to."""
    engines: int
    """Rollout workers: one per vLLM engine."""
    run_label: str
    """Marks what this run leaves in a container engine."""
    cache: Path
    """For what a machine makes once: the grader's Python, local environments."""

    @property
    def live_episodes(self) -> int:
        """Sandboxes open at once in one worker, of which there is one per engine."""
        return max(1, math.ceil(self.recipe.ppo.live_episodes / self.engines))

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox section for one worker: as many at once as it has live episodes, and its share of those that are
        started ahead of their turn."""
        ahead = math.ceil(self.recipe.sandbox.prestart / self.engines)
        return replace(self.recipe.sandbox, concurrency=self.live_episodes, prestart=ahead)

    @property
    def threads(self) -> int:
        """One for each sandbox that one worker may have."""
        return self.live_episodes + self.sandbox.prestart


def write_settings(path: Path, settings: ExecutorSettings) -> dict[str, str]:
    """Write the file; returns the environment variable that leads workers to it. Raises StorageError."""
    write_json(path, plain(settings))
    return {VARIABLE: str(path)}


def read_settings() -> ExecutorSettings:
    """The settings of this worker. Raises RecipeError when there are none or they are not ours."""
    path = os.environ.get(VARIABLE)
    if not path:
        raise RecipeError(f"{VARIABLE} is not set: the rollout workers find their settings through it")
    try:
        values: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        settings = unplain(ExecutorSettings, values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecipeError(f"{VARIABLE}={path} cannot be read: {error!r}") from error
    assert isinstance(settings, ExecutorSettings)
    return settings
