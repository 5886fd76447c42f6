"""The paper's own task folders: ``task.json`` (description, truth, name), ``container.def``, the two tests."""

from dataclasses import dataclass
from pathlib import Path

from runner.domain.errors import TaskFormatError
from runner.domain.task import Environment, Task
from runner.store.harbor import described
from runner.store.harbor.text import optional, required
from runner.store.imports import definition, setup

DESCRIPTION, DEFINITION = "task.json", "container.def"
INITIAL_TEST, FINAL_TEST = "test_initial_state.py", "test_final_state.py"


@dataclass(frozen=True, kw_only=True)
class Native:
    """A task, and what a person should know about how it was brought over."""

    task: Task
    notes: tuple[str, ...]


def is_native(folder: Path) -> bool:
    """Whether a folder means to be one of the paper's tasks."""
    return (folder / DESCRIPTION).is_file() and any((folder / name).is_file() for name in (DEFINITION, FINAL_TEST))


def read(folder: Path) -> Native:
    """Raises TaskFormatError with what is missing, or why the definition cannot become a setup script."""
    about = described.read(folder / DESCRIPTION)
    if not about.description.strip():
        raise TaskFormatError(f"{DESCRIPTION} has no description: there is no instruction")
    if not (folder / DEFINITION).is_file():
        raise TaskFormatError(f"{DEFINITION} is missing: the task was given up before its container was built")
    parsed = definition.parse(required(folder, DEFINITION))
    made = setup.render(parsed, folder)
    origin = {"format": "native", **parsed.header, **({"labels": parsed.labels} if parsed.labels else {})}
    task = Task(
        id=folder.resolve().name,
        instruction=about.description,
        environment=Environment(setup=made.script),
        final_test=required(folder, FINAL_TEST),
        initial_test=optional(folder, INITIAL_TEST) or "",
        truth=about.truth,
        labels=about.labels,
        metadata={**about.metadata, "imported": origin},
    )
    return Native(task=task, notes=made.notes)
