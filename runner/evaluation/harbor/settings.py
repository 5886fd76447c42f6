"""What the evaluation hands to our agent inside Harbor: one JSON file, whose path is an argument of the agent.

It holds no secret: a key is named by its environment variable, which Harbor's process inherits.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.domain.errors import RecipeError
from runner.domain.plain import plain, unplain
from runner.llm.account import Account
from runner.schema import Agent, Model, Sandbox
from runner.store.jsonl import write_json


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """All that an episode depends on, apart from the task."""

    agent: Agent
    model: Model
    """A served model has its address in ``base_url``."""
    temperature: float | None = None
    """Of the model's replies; None: the model's own setting."""
    output_bytes: int = Sandbox().output_bytes
    """A command that writes more is stopped, as in the training sandboxes."""
    account: Account
    """The run's: what is asked here is journaled, booked and bounded there."""
    scope: str = ""
    """What the answers depend on beside the model, the instruction and the agent's limits: which tasks these are."""


def write_settings(path: Path, settings: AgentSettings) -> None:
    """Write the file. Raises StorageError."""
    write_json(path, plain(settings))


def read_settings(path: Path) -> AgentSettings:
    """Read it back. Raises RecipeError when it is not ours."""
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        settings = unplain(AgentSettings, values)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecipeError(f"{path} does not hold the agent's settings: {error!r}") from error
    assert isinstance(settings, AgentSettings)
    return settings
