"""Tasks on disk, a Harbor folder each (schema 1.4)::

    <task-id>/
      instruction.md                what the agent sees
      task.toml                     limits; [metadata]: labels, draw, provenance
      environment/setup.sh          how the sandbox is made; start.sh when it has services
      tests/test_final_state.py     the verifier; test_initial_state.py; of some imported tasks test.sh, and data files
      solution/solve.sh             an oracle, when there is one
      private/truth.md              privileged

An imported task has its own ``environment/Dockerfile`` and build context instead of a setup script. What Harbor needs
beyond this to run a task of ours (a Dockerfile, tests/test.sh) is derived and written by the harbor export.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from runner.domain.errors import TaskFormatError, UserError
from runner.domain.task import Task, is_private
from runner.store.harbor import folder as harbor
from runner.store.jsonl import storage_errors

_EXECUTABLE = {harbor.SETUP, harbor.START, harbor.SOLUTION, harbor.TEST_SCRIPT}
_DEEPEST_SHARD = 4
"""How far below a root tasks may lie: enough for any sharding, and an end to loops of links."""


def write_task(folder: Path, task: Task, *, extra: dict[str, str] | None = None) -> None:
    """Write a task's folder, whole or not at all, in place of an earlier one.

    ``extra`` adds files (relative path -> text), say a rendered Dockerfile. Raises StorageError.
    """
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}.{threading.get_ident()}")
    with storage_errors(folder):
        try:
            _write_files(scratch, harbor.files(task) | (extra or {}))
            _write_data(scratch, harbor.data_files(task))
            if task.environment.context is not None:
                _copy_context(task.environment.context, scratch / "environment")
            _put_in_place(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def read_task(folder: Path) -> Task:
    """Read a task, ours or a Harbor task of others (schema 0.1 to 1.4). Raises TaskFormatError."""
    try:
        return harbor.read(folder)
    except TaskFormatError as error:
        raise TaskFormatError(f"{folder} is not a task: {error}") from error


def is_task(folder: Path) -> bool:
    """Whether a folder means to be a task; ``read_task`` says whether it is a good one."""
    return any((folder / name).is_file() for name in (harbor.TOML, harbor.INSTRUCTION))


def find_tasks(root: Path) -> Iterator[Path]:
    """The task folders at or below ``root`` in order of their paths, lazily. Raises UserError without such a folder."""
    if not root.is_dir():
        raise UserError(f"{root} is not a folder")
    yield from _descend(root, _DEEPEST_SHARD)


def iter_tasks(root: Path) -> Iterator[Task]:
    """The tasks at or below ``root``, read one at a time. Raises UserError and TaskFormatError."""
    return (read_task(folder) for folder in find_tasks(root))


def _descend(folder: Path, depth: int) -> Iterator[Path]:
    if is_task(folder):
        yield folder
    elif depth > 0:
        # Hidden names are unfinished writes and the like.
        for child in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
            yield from _descend(child, depth - 1)


def _write_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        path.chmod(0o755 if name in _EXECUTABLE else 0o644)


def _write_data(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def _copy_context(context: Path, target: Path) -> None:
    """Copy a build context without the privileged files that some task makers leave in it."""
    dockerfile = (context / "Dockerfile").read_text("utf-8", "replace")

    def private(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if is_private(name, dockerfile)] if Path(folder) == context else []

    shutil.copytree(context, target, symlinks=True, ignore=private, dirs_exist_ok=True)


def _put_in_place(scratch: Path, folder: Path) -> None:
    """Rename into place; an earlier folder steps aside first, since a rename cannot replace a full one."""
    if not folder.exists():
        scratch.rename(folder)
        return
    old = scratch.with_name(scratch.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    scratch.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
