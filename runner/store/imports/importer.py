"""Find tasks of others in a folder or an archive, and write each in our stored form, or say why it cannot be."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.domain.errors import TaskFormatError, UserError
from runner.domain.task import Task
from runner.store.harbor import settings
from runner.store.harbor.folder import TOML
from runner.store.imports import native
from runner.store.imports.archive import unpack
from runner.store.scratch import scratch
from runner.store.tasks import is_task, read_task, write_task

_DEEPEST = 6
"""Folders between an archive's root and its tasks."""
_OLD_FORMAT = "task.yaml"
_BUILDKIT = re.compile(
    r"^\s*(RUN|COPY|ADD)\b.*((?<!<)<<-?\s*[\"']?[A-Za-z_]|--(mount|chmod|link|parents)\b)", re.MULTILINE | re.IGNORECASE
)
_TAKES_TRUTH = re.compile(r"^\s*(?:COPY|ADD)\b.*\btask\.json\b", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What became of one task."""

    id: str
    format: str
    """``harbor`` with its schema, ``native``, or ``terminal-bench``."""
    refused: str = ""
    """Why it was not imported; empty when it was."""
    environment: str = ""
    """``Dockerfile`` or ``setup.sh``."""
    verifier: str = ""
    """``pytest`` or ``test.sh``."""
    buildkit: bool = False
    """Its Dockerfile uses what only BuildKit knows (heredocs, mounts)."""
    notes: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        return {
            "id": self.id,
            "outcome": "refused" if self.refused else "imported",
            "reason": self.refused,
            "format": self.format,
            "environment": self.environment,
            "verifier": self.verifier,
            "buildkit": self.buildkit,
            "notes": list(self.notes),
        }


def import_tasks(source: Path, target: Path) -> Iterator[Imported]:
    """Import every task at or below a folder, or in an archive, into ``target``, one at a time.

    A task whose id is taken there is refused. Raises UserError for a source without tasks or an unsafe archive,
    StorageError.
    """
    if source.is_dir():
        yield from _import_folder(source, target, source)
        return
    if not source.is_file():
        raise UserError(f"{source} is neither a folder nor an archive")
    with scratch("import") as folder:
        # A task that lies at the archive's top is named after the archive.
        root = folder / re.sub(r"(\.tar)?\.\w+$", "", source.name)
        root.mkdir()
        unpack(source, root)
        yield from _import_folder(root, target, source)


def _import_folder(folder: Path, target: Path, source: Path) -> Iterator[Imported]:
    found = False
    for task in _candidates(folder, _DEEPEST):
        found = True
        yield _import(task, target)
    if not found:
        looked_for = (
            "a task is a folder with a task.toml and an instruction.md, or the paper's task.json and container.def"
        )
        raise UserError(f"no tasks in {source}: {looked_for}")


def _candidates(folder: Path, depth: int) -> Iterator[Path]:
    if is_task(folder) or native.is_native(folder) or (folder / _OLD_FORMAT).is_file():
        yield folder
    elif depth > 0:
        for child in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
            yield from _candidates(child, depth - 1)


def _import(folder: Path, target: Path) -> Imported:
    name, kind = folder.resolve().name, _format(folder)
    try:
        task, notes = _read(folder)
        _check_place(task.id, target)
        write_task(target / task.id, task)
    except TaskFormatError as error:
        inner = error.__cause__ if isinstance(error.__cause__, TaskFormatError) else error
        return Imported(id=name, format=kind, refused=str(inner))
    dockerfile = _dockerfile(task)
    return Imported(
        id=task.id,
        format=kind,
        environment="setup.sh" if dockerfile is None else "Dockerfile",
        verifier="test.sh" if task.verifier_script else "pytest",
        buildkit=dockerfile is not None and bool(_BUILDKIT.search(dockerfile)),
        notes=notes,
    )


def _check_place(task_id: str, target: Path) -> None:
    """Raises TaskFormatError for an id that is no folder's name, or is taken."""
    if not task_id or task_id.startswith(".") or {"/", "\\", "\0"} & set(task_id):
        raise TaskFormatError(f"its id {task_id!r} cannot be a folder's name")
    if (target / task_id).exists():
        raise TaskFormatError(f"{target / task_id} is there already")


def _format(folder: Path) -> str:
    if not is_task(folder):
        return "native" if native.is_native(folder) else "terminal-bench"
    found = re.search(r"""^(?:schema_)?version\s*=\s*["']([\w.]+)["']""", _toml(folder), re.MULTILINE)
    return f"harbor {found[1]}" if found else "harbor"


def _toml(folder: Path) -> str:
    path = folder / TOML
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _read(folder: Path) -> tuple[Task, tuple[str, ...]]:
    """Raises TaskFormatError."""
    if not is_task(folder) and native.is_native(folder):
        found = native.read(folder)
        return found.task, found.notes
    if not is_task(folder):
        raise TaskFormatError(f"{_OLD_FORMAT} is Terminal-Bench's older format; convert it to Harbor's first")
    task = read_task(folder)
    if not task.instruction.strip():
        raise TaskFormatError("instruction.md is empty: there is no instruction")
    dockerfile = _dockerfile(task)
    if dockerfile is not None and _TAKES_TRUTH.search(dockerfile):
        raise TaskFormatError("its Dockerfile copies task.json, which holds the hidden truth, into the image")
    table = settings.parse(_toml(folder))
    if settings.ours(table) is None:
        schema = str(table.get("schema_version", table.get("version", "1.0")))
        task = replace(task, metadata={**task.metadata, "imported": {"format": "harbor", "schema": schema}})
    return task, tuple(_notes(table, task))


def _notes(table: dict[str, Any], task: Task) -> Iterator[str]:
    """What the task asks for and does not get here."""
    if task.verifier_script:
        yield "it is graded by its own tests/test.sh, as root, with the image's tools and without a network"
    if any(f"/tests/{name}" in task.final_test for name in task.test_files):
        yield "its tests name files below /tests; here such files lie beside the test (Path(__file__).parent)"
    if task.verifier_script and table["verifier"].get("env"):
        yield "[verifier.env] is not handed to its tests/test.sh"
    for key in ("gpus", "mcp_servers", "env"):
        if table["environment"].get(key):
            yield f"[environment] {key} is ignored"
    if task.environment.health is not None:
        yield "its health check is tried as uid 1000; what its image's ENTRYPOINT would start does not run"


def _dockerfile(task: Task) -> str | None:
    context = task.environment.context
    return None if context is None else (context / "Dockerfile").read_text("utf-8", "replace")
