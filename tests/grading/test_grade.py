"""The one door: which verifier decides is the task's affair."""

from pathlib import Path

from runner.domain.episode import Outcome
from runner.domain.task import Environment, Task
from runner.grading.grade import grade, settle, workdir
from runner.sandbox.null import NullBackend
from runner.schema import Sandbox


def task(**parts: str) -> Task:
    return Task(id="t", instruction="x", environment=Environment(setup="true"), **{"final_test": "", **parts})


def test_a_pytest_file_and_a_script_are_graded_alike() -> None:
    backend = NullBackend(Sandbox(), Path(), "test")
    for parts in ({"final_test": "def test_a(): ..."}, {"verifier_script": "echo 1"}):
        image = backend.build(task(**parts).environment, timeout=1)
        for commands, outcome in (((), Outcome.FAIL), (("ls",), Outcome.PASS)):
            with backend.start(image) as sandbox:
                for command in commands:
                    sandbox.run(command, timeout=1)
                verdict = grade(task(**parts), sandbox, backend)
            assert verdict.outcome is outcome
            assert settle(task(**parts), verdict, backend, image) == verdict


def test_a_script_starts_where_the_images_programs_start(tmp_path: Path) -> None:
    assert workdir(task()) == "/home/user"
    (tmp_path / "Dockerfile").write_text("FROM a\nWORKDIR /app\n")
    imported = Task(id="t", instruction="x", environment=Environment(context=tmp_path), final_test="")
    assert workdir(imported) == "/app"
