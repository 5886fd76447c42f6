"""Others' tasks, imported by the command and then checked in real sandboxes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.foreign_tasks import harbor, native

from runner.cli.main import main
from runner.domain.episode import Outcome
from runner.domain.task import AGENT_HOME
from runner.grading.grade import grade
from runner.phases.check import CheckResult, check_folder
from runner.sandbox.base import Backend, Image
from runner.sandbox.registry import open_backend
from runner.schema import Sandbox
from runner.store.tasks import read_task

PUBLIC = Path(__file__).parents[3] / "shared/data/harbor-tasks"
SAMPLE = ("task_000000_17a04f94", "task_000000_0b20fa4e")


@pytest.fixture(scope="module")
def docker(docker_settings: Sandbox, session_cache: Path) -> Iterator[Backend]:
    backend = open_backend(docker_settings, cache=session_cache, run_label="test-import")
    yield backend
    backend.close()


def steps(result: CheckResult) -> tuple[Outcome | None, ...]:
    return (result.build, result.initial, result.final, result.oracle)


@pytest.mark.docker
@pytest.mark.live
class TestMadeHere:
    def test_a_task_with_only_a_script_is_imported_and_sound(self, docker: Backend, tmp_path: Path) -> None:
        harbor(tmp_path / "in/t")
        assert main(["tasks", "import", str(tmp_path / "in"), "--to", str(tmp_path / "ours")]) == 0
        result = check_folder(tmp_path / "ours/t", docker)
        assert result.reason == ""
        assert steps(result) == (Outcome.PASS, None, Outcome.FAIL, Outcome.PASS)

    def test_an_agent_in_such_a_task_sees_nothing_hidden(self, docker: Backend, tmp_path: Path) -> None:
        main(["tasks", "import", str(harbor(tmp_path / "t")), "--to", str(tmp_path / "ours")])
        task = read_task(tmp_path / "ours/t")
        image = docker.build(task.environment, timeout=300)
        assert isinstance(image, Image)
        with docker.start(image) as sandbox:
            seen = sandbox.run("ls /ctx; ls -d /tests /logs /private", timeout=20).output.decode()
            assert seen.splitlines()[0] == "Dockerfile"
            assert seen.count("No such file") == 3
            assert sandbox.run("pwd; echo wrong > answer", timeout=20).output.decode().strip() == AGENT_HOME
            assert grade(task, sandbox, docker).reward == 0

    def test_a_script_that_needs_a_network_is_found_by_the_check(self, docker: Backend, tmp_path: Path) -> None:
        script = "set -e\ncurl -LsSf http://192.0.2.1/install.sh\necho 1 > /logs/verifier/reward.txt\n"
        main(["tasks", "import", str(harbor(tmp_path / "t", **{"tests/test.sh": script})), "--to", str(tmp_path / "o")])
        result = check_folder(tmp_path / "o/t", docker)
        assert result.outcome is Outcome.FAIL
        assert "does not run on the untouched environment (no_reward)" in result.reason
        assert "wrote neither /logs/verifier/reward.json nor reward.txt" in result.reason

    def test_a_native_folder_is_imported_and_sound(self, docker: Backend, tmp_path: Path) -> None:
        native(tmp_path / "in/task_1")
        assert main(["tasks", "import", str(tmp_path / "in"), "--to", str(tmp_path / "ours")]) == 0
        result = check_folder(tmp_path / "ours/task_1", docker)
        assert result.reason == ""
        assert steps(result) == (Outcome.PASS, Outcome.PASS, Outcome.FAIL, None)


@pytest.mark.docker
@pytest.mark.parametrize("name", SAMPLE)
def test_a_public_task_is_imported_and_sound(docker: Backend, tmp_path: Path, name: str) -> None:
    if not (PUBLIC / name).is_dir():
        pytest.skip("the public sample tasks are not on this machine (../shared/data/harbor-tasks)")
    main(["tasks", "import", str(PUBLIC / name), "--to", str(tmp_path)])
    result = check_folder(tmp_path / name, docker)
    assert result.reason == ""
    assert steps(result) == (Outcome.PASS, Outcome.PASS, Outcome.FAIL, None)


class TestTheCommand:
    def test_it_tells_a_line_a_task_and_fails_where_one_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        harbor(tmp_path / "in/good")
        harbor(tmp_path / "in/worse", **{"instruction.md": ""})
        assert main(["tasks", "import", str(tmp_path / "in"), "--to", str(tmp_path / "ours")]) == 1
        out = capsys.readouterr().out
        assert "imported  good  harbor 0.1, Dockerfile, test.sh" in out
        assert "refused   worse  harbor 0.1  instruction.md is missing" in out
        assert "imported 1 of 2 tasks" in out

    def test_json_is_one_object_a_task_and_nothing_else(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        native(tmp_path / "in/a")
        assert main(["tasks", "import", str(tmp_path / "in"), "--to", str(tmp_path / "ours"), "--json"]) == 0
        (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert row == {
            "id": "a",
            "outcome": "imported",
            "reason": "",
            "format": "native",
            "environment": "setup.sh",
            "verifier": "pytest",
            "buildkit": False,
            "notes": [],
        }

    def test_dockerfiles_where_buildx_is_missing_are_announced(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        main(["tasks", "import", str(harbor(tmp_path / "t")), "--to", str(tmp_path / "ours")])
        said = " ".join(capsys.readouterr().out.split())
        assert (
            "have a Dockerfile, which is built with BuildKit through docker buildx: the docker command is not" in said
        )

    def test_a_wrong_source_is_one_line_and_exit_code_2(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["tasks", "import", str(tmp_path / "gone"), "--to", str(tmp_path / "ours")]) == 2
        assert capsys.readouterr().err.startswith("error: ")
