"""The files of a task folder: where each part of a task lies, in folders of ours and of others.

What others do differently is met here: the hidden truth in ``environment/task.json``, the initial test inside the
build context, other names for the verifier's pytest file.
"""

import json
from pathlib import Path
from typing import Any

from runner.domain.errors import TaskFormatError
from runner.domain.task import Environment, Task
from runner.store.harbor import settings

TOML = "task.toml"
INSTRUCTION = "instruction.md"
SETUP = "environment/setup.sh"
START = "environment/start.sh"
DOCKERFILE = "environment/Dockerfile"
FINAL_TEST = "tests/test_final_state.py"
INITIAL_TEST = "tests/test_initial_state.py"
TEST_SCRIPT = "tests/test.sh"
SOLUTION = "solution/solve.sh"
TRUTH = "private/truth.md"

_FINAL_TESTS = (FINAL_TEST, "tests/test_outputs.py")
_INITIAL_TESTS = (INITIAL_TEST, "environment/test_initial_state.py")


def files(task: Task) -> dict[str, str]:
    """Relative path -> text of a task's folder, an imported build context aside; empty parts have no file."""
    ours = task.environment.context is None
    setup = {SETUP: task.environment.setup} if ours else {}
    optional = {
        START: task.environment.start if ours else "",
        INITIAL_TEST: task.initial_test,
        SOLUTION: task.solution,
        TRUTH: task.truth,
    }
    return {
        TOML: settings.dump(task),
        INSTRUCTION: task.instruction,
        FINAL_TEST: task.final_test,
        **setup,
        **{name: text for name, text in optional.items() if text},
    }


def read(folder: Path) -> Task:
    """The task in a folder. Raises TaskFormatError with what is wrong, without the folder's name."""
    table = settings.parse(_required(folder, TOML))
    mark = settings.ours(table)
    return Task(
        id=str(mark["id"]) if mark and "id" in mark else folder.resolve().name,
        instruction=_required(folder, INSTRUCTION),
        environment=_environment(folder, table, mark),
        final_test=_final_test(folder),
        initial_test=_first(folder, _INITIAL_TESTS),
        truth=_truth(folder),
        solution=_text(folder, SOLUTION) or "",
        labels=settings.labels(table),
        limits=settings.limits(table),
        draw=mark.get("draw") if mark else None,
        metadata=settings.provenance(table),
    )


def _environment(folder: Path, table: dict[str, Any], mark: dict[str, Any] | None) -> Environment:
    if mark and mark.get("environment") == "setup":
        return Environment(setup=_required(folder, SETUP), start=_text(folder, START) or "")
    if not (folder / DOCKERFILE).is_file():
        raise TaskFormatError(_no_dockerfile(folder, table))
    return Environment(context=(folder / "environment").resolve())


def _no_dockerfile(folder: Path, table: dict[str, Any]) -> str:
    if any((folder / "environment").glob("docker-compose.y*ml")):
        return f"{DOCKERFILE} is missing (environments of several containers, docker-compose, cannot be run)"
    if table["environment"].get("docker_image"):
        return f"{DOCKERFILE} is missing (it names a prebuilt docker_image; write a Dockerfile that starts FROM it)"
    return f"{DOCKERFILE} is missing"


def _final_test(folder: Path) -> str:
    """Ours, Terminal-Bench's name, or the only pytest file there is."""
    for name in _FINAL_TESTS:
        if (text := _text(folder, name)) is not None:
            return text
    others = [path for path in sorted((folder / "tests").glob("test_*.py")) if path.name != Path(INITIAL_TEST).name]
    if len(others) != 1:
        found = ", ".join(path.name for path in others) or "no pytest file"
        raise TaskFormatError(f"{FINAL_TEST} is missing (tests/ holds {found})")
    return _required(folder, f"tests/{others[0].name}")


def _truth(folder: Path) -> str:
    text = _text(folder, TRUTH)
    if text is not None:
        return text
    described = _text(folder, "environment/task.json")
    if described is None:
        return ""
    try:
        value = json.loads(described)
    except json.JSONDecodeError as error:
        raise TaskFormatError(f"environment/task.json is not valid JSON: {error}") from error
    truth = value.get("truth", "") if isinstance(value, dict) else ""
    return truth if isinstance(truth, str) else json.dumps(truth, ensure_ascii=False)


def _first(folder: Path, names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := _text(folder, name)) is not None), "")


def _required(folder: Path, name: str) -> str:
    text = _text(folder, name)
    if text is None:
        raise TaskFormatError(f"{name} is missing")
    return text


def _text(folder: Path, name: str) -> str | None:
    """A file's text with its line ends as they are; None when there is none."""
    path = folder / name
    if not path.is_file():
        return None
    try:
        return path.read_bytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise TaskFormatError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise TaskFormatError(f"{name} cannot be read: {error.strerror}") from error
