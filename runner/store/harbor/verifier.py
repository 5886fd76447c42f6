"""A task folder's ``tests/``: a pytest file where there is one, else Harbor's ``test.sh``, and the data beside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.domain.errors import TaskFormatError
from runner.store.harbor.text import optional, required

FINAL_TEST = "tests/test_final_state.py"
INITIAL_TEST = "tests/test_initial_state.py"
TEST_SCRIPT = "tests/test.sh"
MOST_BYTES = 32 << 20
"""Of all files beside the tests: they travel into every sandbox that is graded."""

_FINAL_TESTS = (FINAL_TEST, "tests/test_outputs.py")
_LITTER = ("__pycache__", ".pytest_cache", ".DS_Store")


@dataclass(frozen=True, kw_only=True)
class Verifying:
    """What decides about a task: one of the two texts is not empty."""

    final_test: str = ""
    script: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


def read(folder: Path, mark: Mapping[str, Any] | None) -> Verifying:
    """The verifier of a task folder; ``mark`` is what we wrote into ours. Raises TaskFormatError."""
    if mark is not None and mark.get("environment") is not None:
        return _ours(folder, mark)
    name = _pytest_file(folder)
    beside = {path.relative_to(folder / "tests").as_posix(): path for path in _files(folder / "tests")}
    beside = {at: path for at, path in beside.items() if f"tests/{at}" not in (name, INITIAL_TEST, TEST_SCRIPT)}
    files = _contents(folder, beside)
    if name == TEST_SCRIPT:
        return Verifying(script=required(folder, TEST_SCRIPT), files=files)
    return Verifying(final_test=required(folder, name), files=files)


def _ours(folder: Path, mark: Mapping[str, Any]) -> Verifying:
    """Nothing but what the mark names: the harbor export adds a test.sh and a runner that are no part of a task."""
    names = [str(name) for name in mark.get("test_files", [])]
    for name in names:
        if name.startswith("/") or ".." in Path(name).parts:
            raise TaskFormatError(f"test_files in task.toml names {name!r}, which is not below tests/")
        if not (folder / "tests" / name).is_file():
            raise TaskFormatError(f"tests/{name} is missing")
    files = _contents(folder, {name: folder / "tests" / name for name in names})
    if mark.get("verifier") == "script":
        return Verifying(script=required(folder, TEST_SCRIPT), files=files)
    return Verifying(final_test=required(folder, FINAL_TEST), files=files)


def _pytest_file(folder: Path) -> str:
    """Our name, Terminal-Bench's name, or the only pytest file there is; without one, the script."""
    for name in _FINAL_TESTS:
        if (folder / name).is_file():
            return name
    others = [path for path in sorted((folder / "tests").glob("test_*.py")) if path.name != Path(INITIAL_TEST).name]
    if len(others) == 1:
        return f"tests/{others[0].name}"
    if optional(folder, TEST_SCRIPT):
        return TEST_SCRIPT
    found = ", ".join(path.name for path in others) or "no pytest file and no test.sh"
    raise TaskFormatError(f"{FINAL_TEST} is missing (tests/ holds {found})")


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not set(path.parts) & set(_LITTER) and path.suffix != ".pyc":
            yield path


def _contents(folder: Path, files: Mapping[str, Path]) -> dict[str, bytes]:
    """Raises TaskFormatError for links that lead out of the folder, and for more than can travel."""
    root = folder.resolve()
    for name, path in files.items():
        if not path.resolve().is_relative_to(root):
            raise TaskFormatError(f"tests/{name} leads out of the task's folder")
    size = sum(path.stat().st_size for path in files.values())
    if size > MOST_BYTES:
        raise TaskFormatError(
            f"the files beside its tests are {size >> 20} MiB; at most {MOST_BYTES >> 20} can be used"
        )
    try:
        return {name: path.read_bytes() for name, path in files.items()}
    except OSError as error:
        raise TaskFormatError(f"a file beside its tests cannot be read: {error}") from error
