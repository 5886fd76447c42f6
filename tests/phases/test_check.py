"""`endless tasks check`: which tasks are sound, which are not and why, and what is only bad luck."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runner.domain.episode import Outcome
from runner.domain.errors import EngineError, MissingRequirement, UserError
from runner.domain.task import Environment, Task
from runner.phases.check import CheckResult, Patience, check_folder, check_paths, check_task, verifier_role
from runner.sandbox.base import BuildFailure, Image, Role
from runner.sandbox.null import NullBackend, NullSandbox
from runner.sandbox.registry import open_backend
from runner.schema import Sandbox
from runner.store.tasks import write_task

QUICK = Patience(tries=3, backoff_seconds=0.0)
TASK = Task(
    id="count",
    instruction="Count the lines of /home/user/in.",
    environment=Environment(setup="seq 3 > /home/user/in\n"),
    initial_test="def test_there():\n    assert len(open('/home/user/in').readlines()) == 3\n",
    final_test="def test_count():\n    assert open('/home/user/out').read().strip() == '3'\n",
    solution="wc -l < /home/user/in > /home/user/out\n",
)


class Fragile(NullBackend):
    """A backend whose engine fails at the steps it is told to, so many times."""

    def __init__(self, *, build: int = 0, start: int = 0, error: Exception | None = None) -> None:
        super().__init__(Sandbox(), Path(), "test")
        self.troubles = {"build": build, "start": start}
        self.error = error or EngineError("the engine is gone")
        self.removed: list[Image] = []
        self.failure: BuildFailure | None = None

    def build(self, environment: Environment, *, timeout: float) -> Image | BuildFailure:  # type: ignore[override]
        self._trouble("build")
        return self.failure or super().build(environment, timeout=timeout)

    @contextmanager
    def start(self, image: Image) -> Iterator[NullSandbox]:
        self._trouble("start")
        with super().start(image) as sandbox:
            yield sandbox

    def remove_image(self, image: Image) -> None:
        self.removed.append(image)

    def _trouble(self, step: str) -> None:
        if self.troubles[step] > 0:
            self.troubles[step] -= 1
            raise self.error


class TestInfrastructure:
    def test_an_engine_that_stays_away_at_the_build_is_infra_with_the_cause(self) -> None:
        result = check_task(TASK, Fragile(build=3), patience=QUICK)
        assert (result.build, result.initial, result.final, result.oracle) == (Outcome.INFRA, None, None, None)
        assert result.outcome is Outcome.INFRA
        assert result.reason == "build: the engine is gone"

    def test_an_engine_that_goes_away_later_names_the_step(self) -> None:
        backend = Fragile(start=3)
        result = check_task(TASK, backend, patience=QUICK)
        assert (result.build, result.initial, result.outcome) == (Outcome.PASS, Outcome.INFRA, Outcome.INFRA)
        assert len(backend.removed) == 1

    def test_trouble_that_passes_is_not_seen(self) -> None:
        backend = Fragile(build=2)
        backend.failure = BuildFailure(log="setup.sh: line 1: sqe: command not found")
        result = check_task(TASK, backend, patience=QUICK)
        assert result.outcome is Outcome.FAIL
        assert "does not build: setup.sh: line 1: sqe" in result.reason

    def test_a_backend_that_cannot_build_such_a_task_is_not_the_tasks_fault(self) -> None:
        backend = Fragile(build=1, error=MissingRequirement("a Dockerfile needs sandbox=docker"))
        result = check_task(TASK, backend, patience=QUICK)
        assert result.outcome is Outcome.INFRA
        assert result.reason == "build: a Dockerfile needs sandbox=docker"


class TestBuildFailures:
    def test_a_late_build_says_its_limit_and_a_long_log_is_cut_to_its_end(self) -> None:
        backend = Fragile()
        backend.failure = BuildFailure(log="x" * 10_000 + " last words", timed_out=True)
        result = check_task(TASK, backend)
        assert result.reason.startswith("the environment does not build (longer than 180 s): [...] xxx")
        assert result.reason.endswith("last words")
        assert len(result.reason) < 700


class TestPaths:
    def test_folders_shards_and_single_tasks_are_checked_in_order(self, tmp_path: Path) -> None:
        for name in ("b/02", "b/01", "a"):
            write_task(tmp_path / name, replace(TASK, id=name))
        backend = Fragile(build=99)
        results = check_paths([tmp_path / "b", tmp_path / "a"], backend, concurrency=2, patience=QUICK)
        assert [result.id for result in results] == ["b/01", "b/02", "a"]

    def test_a_path_without_tasks_is_the_users_mistake(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no tasks in"):
            list(check_paths([tmp_path], Fragile()))

    def test_a_broken_folder_fails_with_the_reason_and_the_others_go_on(self, tmp_path: Path) -> None:
        write_task(tmp_path / "a", TASK)
        (tmp_path / "a/instruction.md").unlink()
        result = check_folder(tmp_path / "a", Fragile())
        assert result.outcome is Outcome.FAIL
        assert "instruction.md is missing" in result.reason

    def test_a_result_is_one_json_object_with_the_agreed_keys(self) -> None:
        result = CheckResult(id="a", build=Outcome.PASS, final=Outcome.FAIL, outcome=Outcome.PASS, seconds=1.234)
        assert json.loads(json.dumps(result.row())) == {
            "id": "a",
            "build": "pass",
            "initial": None,
            "final": "fail",
            "oracle": None,
            "outcome": "pass",
            "seconds": 1.23,
            "reason": "",
        }


@pytest.mark.parametrize(
    ("dockerfile", "role"),
    [
        ("FROM a\nRUN b\n", Role.ROOT),
        ("FROM a\nUSER user\nWORKDIR /home/user", Role.AGENT),
        ("FROM a\n  user 1000:1000", Role.AGENT),
        ("FROM a\nUSER user\nUSER root", Role.ROOT),
        ("FROM a AS build\nUSER user\nFROM b", Role.ROOT),
    ],
)
def test_imported_tests_run_as_their_images_own_user(tmp_path: Path, dockerfile: str, role: Role) -> None:
    (tmp_path / "Dockerfile").write_text(dockerfile)
    assert verifier_role(replace(TASK, environment=Environment(context=tmp_path))) is role


def test_our_own_tests_run_as_root() -> None:
    assert verifier_role(TASK) is Role.ROOT


@pytest.fixture(scope="module")
def docker(docker_settings: Sandbox, session_cache: Path) -> Iterator[object]:
    backend = open_backend(docker_settings, cache=session_cache, run_label="test-check")
    yield backend
    backend.close()


@pytest.mark.docker
@pytest.mark.live
class TestInContainers:
    def test_a_sound_task_passes_every_step(self, docker: NullBackend) -> None:
        result = check_task(TASK, docker)
        assert result.reason == ""
        steps = (result.build, result.initial, result.final, result.oracle)
        assert steps == (Outcome.PASS, Outcome.PASS, Outcome.FAIL, Outcome.PASS)
        assert result.outcome is Outcome.PASS

    def test_a_task_without_initial_test_and_oracle_leaves_those_steps_out(self, docker: NullBackend) -> None:
        result = check_task(replace(TASK, initial_test="", solution=""), docker)
        assert (result.initial, result.oracle, result.outcome) == (None, None, Outcome.PASS)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"environment": Environment(setup="echo so far; exit 3")}, "does not build: so far"),
            ({"initial_test": "def test_a():\n    assert 1 == 2\n"}, "the initial test fails on the untouched"),
            ({"final_test": "def test_a():\n    pass\n"}, "the final test passes on the untouched environment"),
            ({"final_test": "def test_a(:\n"}, "the final test does not run on the untouched environment"),
            ({"final_test": "import yaml\ndef test_a():\n    assert 0\n"}, "imports 'yaml', which the grader's Python"),
            ({"solution": "exit 1"}, "the final test fails after the oracle"),
        ],
    )
    def test_an_unsound_task_fails_with_the_reason(
        self, docker: NullBackend, changes: dict[str, object], reason: str
    ) -> None:
        result = check_task(replace(TASK, **changes), docker)  # type: ignore[arg-type]
        assert result.outcome is Outcome.FAIL
        assert reason in result.reason

    def test_the_steps_do_not_see_each_others_traces(self, docker: NullBackend) -> None:
        initial = "import os\ndef test_a():\n    assert not os.path.exists('/srv/trace')\n    open('/srv/trace', 'w')\n"
        final = initial + "    assert open('/home/user/out').read().strip() == '3'\n"
        result = check_task(replace(TASK, initial_test=initial, final_test=final), docker)
        assert result.reason == ""

    def test_an_imported_folder_with_hidden_files_in_its_context_is_checked(
        self, docker: NullBackend, tmp_path: Path
    ) -> None:
        dockerfile = "FROM ubuntu:22.04\nRUN mkdir -p /home/user && chmod 777 /home/user\nCOPY . /ctx\n"
        initial = "import os\ndef test_a():\n    assert os.listdir('/ctx') == ['Dockerfile']\n"
        files = {
            "task.toml": 'version = "0.1"',
            "instruction.md": "Make /home/user/out.",
            "environment/Dockerfile": dockerfile,
            "environment/task.json": '{"truth": "secret"}',
            "environment/test_initial_state.py": initial,
            "tests/test_final_state.py": "def test_b():\n    assert open('/home/user/out').read()\n",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        result = check_folder(tmp_path, docker)
        assert result.reason == ""
        assert result.outcome is Outcome.PASS
