"""The files of a task folder: where each part of a task lies, in folders of ours and of others.

What others do differently is met here: the hidden truth in ``environment/task.json``, the initial test inside the
build context, other names for the verifier's pytest file, verifiers that are a script (``verifier``).
"""

from pathlib import Path
from typing import Any

from runner.domain.errors import TaskFormatError
from runner.domain.task import Environment, Task
from runner.store.harbor import described, services, settings, verifier
from runner.store.harbor.text import optional, required

TOML = "task.toml"
INSTRUCTION = "instruction.md"
SETUP = "environment/setup.sh"
START = "environment/start.sh"
DOCKERFILE = "environment/Dockerfile"
FINAL_TEST = verifier.FINAL_TEST
INITIAL_TEST = verifier.INITIAL_TEST
TEST_SCRIPT = verifier.TEST_SCRIPT
SOLUTION = "solution/solve.sh"
TRUTH = "private/truth.md"

_INITIAL_TESTS = (INITIAL_TEST, "environment/test_initial_state.py")


def files(task: Task) -> dict[str, str]:
    """Relative path -> text of a task's folder, an imported build context aside; empty parts have no file."""
    ours = task.environment.context is None
    setup = {SETUP: task.environment.setup} if ours else {}
    verifying = {TEST_SCRIPT: task.verifier_script} if task.verifier_script else {FINAL_TEST: task.final_test}
    others = {
        START: task.environment.start if ours else "",
        INITIAL_TEST: task.initial_test,
        SOLUTION: task.solution,
        TRUTH: task.truth,
    }
    return {
        TOML: settings.dump(task),
        INSTRUCTION: task.instruction,
        **verifying,
        **setup,
        **{name: text for name, text in others.items() if text},
    }


def data_files(task: Task) -> dict[str, bytes]:
    """Relative path -> content of what lies beside the tests."""
    return {f"tests/{name}": content for name, content in task.test_files.items()}


def read(folder: Path) -> Task:
    """The task in a folder. Raises TaskFormatError with what is wrong, without the folder's name."""
    table = settings.parse(required(folder, TOML))
    mark = settings.ours(table)
    verifying = verifier.read(folder, mark)
    about = described.read(folder / described.IN_CONTEXT) if mark is None else described.Described()
    return Task(
        id=str(mark["id"]) if mark and "id" in mark else folder.resolve().name,
        instruction=required(folder, INSTRUCTION),
        environment=_environment(folder, table, mark),
        final_test=verifying.final_test,
        verifier_script=verifying.script,
        test_files=verifying.files,
        initial_test=_first(folder, _INITIAL_TESTS),
        truth=optional(folder, TRUTH) or about.truth,
        solution=optional(folder, SOLUTION) or "",
        labels={**about.labels, **settings.labels(table)},
        keep_ports=services.keep_ports(mark, script=bool(verifying.script)),
        limits=settings.limits(table),
        draw=mark.get("draw") if mark else None,
        metadata={**about.metadata, **settings.provenance(table)},
    )


def _environment(folder: Path, table: dict[str, Any], mark: dict[str, Any] | None) -> Environment:
    health = services.health(table)
    if mark and mark.get("environment") == "setup":
        return Environment(setup=required(folder, SETUP), start=optional(folder, START) or "", health=health)
    if any((folder / "environment").glob("docker-compose.y*ml")):
        raise TaskFormatError("its environment is several containers (docker-compose); only a Dockerfile can be run")
    if not (folder / DOCKERFILE).is_file():
        raise TaskFormatError(_no_dockerfile(table))
    return Environment(context=(folder / "environment").resolve(), health=health)


def _no_dockerfile(table: dict[str, Any]) -> str:
    if table["environment"].get("docker_image"):
        return f"{DOCKERFILE} is missing (it names a prebuilt docker_image; write a Dockerfile that starts FROM it)"
    return f"{DOCKERFILE} is missing"


def _first(folder: Path, names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := optional(folder, name)) is not None), "")
