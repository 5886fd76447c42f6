"""What of others' tasks is brought over, and what is refused with which reason."""

import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.foreign_tasks import FINAL, TASK, harbor, native, write

from runner.domain.errors import UserError
from runner.store.imports.importer import Imported, import_tasks
from runner.store.tasks import read_task


def bring(source: Path, target: Path) -> list[Imported]:
    return list(import_tasks(source, target))


class TestHarbor:
    def test_truth_labels_tests_and_data_are_kept_and_nothing_hidden_stays_in_the_context(self, tmp_path: Path) -> None:
        (result,) = bring(harbor(tmp_path / "theirs"), tmp_path / "ours")
        assert (result.id, result.refused, result.format) == ("theirs", "", "harbor 0.1")
        assert (result.environment, result.verifier) == ("Dockerfile", "test.sh")
        assert [path.name for path in (tmp_path / "ours/theirs/environment").iterdir()] == ["Dockerfile"]
        assert (tmp_path / "ours/theirs/private/truth.md").read_text() == "right"
        task = read_task(tmp_path / "ours/theirs")
        assert task.labels == {"category": "logs", "difficulty": "easy", "complexity": "1 command"}
        assert task.metadata["tags"] == ["awk"]
        assert task.metadata["imported"] == {"format": "harbor", "schema": "0.1"}
        assert task.test_files == {"want.txt": b"right\n"}
        assert "cmp" in task.verifier_script

    @pytest.mark.parametrize("version", ['version = "0.1"', *(f'schema_version = "1.{n}"' for n in range(5)), ""])
    def test_every_schema_up_to_1_4_is_read(self, tmp_path: Path, version: str) -> None:
        (result,) = bring(harbor(tmp_path / "t", **{"task.toml": version + "\n#"}), tmp_path / "ours")
        assert result.refused == ""

    @pytest.mark.parametrize(
        ("files", "reason"),
        [
            ({"instruction.md": ""}, "instruction.md is missing"),
            ({"instruction.md": " \n"}, "there is no instruction"),
            ({"task.toml": 'schema_version = "2.0"'}, "this reads 0.1 to 1.4"),
            ({"task.toml": '[[steps]]\nname = "a"'}, "multi-step"),
            ({"environment/docker-compose.yaml": "services: {}"}, "docker-compose"),
            ({"environment/Dockerfile": ""}, "environment/Dockerfile is missing"),
            ({"tests/test.sh": ""}, "no pytest file and no test.sh"),
            ({"environment/Dockerfile": "FROM a\nCOPY x.py task.json /srv/\n"}, "holds the hidden truth"),
            (
                {"task.toml": '[metadata.endless]\nid = "../out"\nenvironment = "context"\nverifier = "script"'},
                "its id",
            ),
            (
                {"task.toml": '[metadata.endless]\nenvironment = "context"\ntest_files = ["../../x"]'},
                "not below tests/",
            ),
        ],
    )
    def test_what_cannot_be_run_is_refused_with_the_reason(
        self, tmp_path: Path, files: dict[str, str], reason: str
    ) -> None:
        (result,) = bring(harbor(tmp_path / "theirs", **files), tmp_path / "ours")
        assert reason in result.refused
        assert result.row()["outcome"] == "refused"
        assert not (tmp_path / "ours").exists()

    def test_older_terminal_bench_tasks_are_named_as_such(self, tmp_path: Path) -> None:
        write(tmp_path / "in/t", {"task.yaml": "instruction: x", "run-tests.sh": "x"})
        (result,) = bring(tmp_path / "in", tmp_path / "ours")
        assert (result.format, result.refused) == (
            "terminal-bench",
            "task.yaml is Terminal-Bench's older format; convert it to Harbor's first",
        )

    @pytest.mark.parametrize(
        ("dockerfile", "buildkit"),
        [("FROM a\nRUN x << 'END'\ny\nEND\n", True), ("FROM a\nRUN --mount=type=cache x\n", True), ("FROM a\n", False)],
    )
    def test_dockerfiles_for_buildkit_are_marked(self, tmp_path: Path, dockerfile: str, buildkit: bool) -> None:
        (result,) = bring(harbor(tmp_path / "t", **{"environment/Dockerfile": dockerfile}), tmp_path / "ours")
        assert result.buildkit is buildkit

    def test_a_task_that_is_there_already_is_not_replaced(self, tmp_path: Path) -> None:
        bring(harbor(tmp_path / "t"), tmp_path / "ours")
        (result,) = bring(harbor(tmp_path / "t", **{"instruction.md": "other"}), tmp_path / "ours")
        assert "is there already" in result.refused
        assert read_task(tmp_path / "ours/t").instruction.startswith("Write right")

    def test_what_is_asked_for_and_not_given_is_said(self, tmp_path: Path) -> None:
        toml = "[environment]\ngpus = 1\n[verifier.env]\nKEY = 'x'\n"
        (result,) = bring(harbor(tmp_path / "t", **{"task.toml": toml}), tmp_path / "ours")
        assert "[verifier.env] is not handed to its tests/test.sh" in result.notes
        assert "[environment] gpus is ignored" in result.notes

    def test_tests_that_look_for_their_data_elsewhere_are_told_of(self, tmp_path: Path) -> None:
        test = "def test_a():\n    open('/tests/want.txt')\n"
        (result,) = bring(harbor(tmp_path / "t", **{"tests/test_outputs.py": test}), tmp_path / "ours")
        assert result.verifier == "pytest"
        assert "name files below /tests" in result.notes[0]


class TestNative:
    def test_a_native_folder_becomes_a_task_of_ours(self, tmp_path: Path) -> None:
        (result,) = bring(native(tmp_path / "task_1"), tmp_path / "ours")
        assert (result.refused, result.format, result.environment, result.verifier) == (
            "",
            "native",
            "setup.sh",
            "pytest",
        )
        assert result.notes == ()
        task = read_task(tmp_path / "ours/task_1")
        assert (task.instruction, task.truth) == (TASK["description"], "75%")
        assert task.final_test == FINAL
        assert "test_user_and_files" in task.initial_test
        assert task.metadata["imported"] == {
            "format": "native",
            "bootstrap": "localimage",
            "from": "./ubuntu_22.04.sif",
            "labels": {"Author": "Somebody", "Task": "Alert analysis"},
        }
        assert "75%" not in (tmp_path / "ours/task_1/task.toml").read_text()

    @pytest.mark.parametrize(
        ("files", "reason"),
        [
            ({"container.def": ""}, "container.def is missing: the task was given up"),
            ({"task.json": '{"truth": "x"}'}, "no description"),
            ({"task.json": "{"}, "task.json is not valid JSON"),
            ({"test_final_state.py": ""}, "test_final_state.py is missing"),
        ],
    )
    def test_an_incomplete_folder_is_refused_with_what_is_missing(
        self, tmp_path: Path, files: dict[str, str], reason: str
    ) -> None:
        (result,) = bring(native(tmp_path / "in/t", **files), tmp_path / "ours")
        assert reason in result.refused


class TestSources:
    def test_folders_of_folders_are_imported_in_order_whatever_they_hold(self, tmp_path: Path) -> None:
        harbor(tmp_path / "in/a/x")
        native(tmp_path / "in/b/y")
        harbor(tmp_path / "in/c", **{"instruction.md": ""})
        results = bring(tmp_path / "in", tmp_path / "ours")
        assert [(result.id, bool(result.refused)) for result in results] == [("x", False), ("y", False), ("c", True)]

    @pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
    def test_archives_are_imported_like_folders(self, tmp_path: Path, kind: str) -> None:
        folder = harbor(tmp_path / "in/t", **{"environment/run.sh": "x"})
        (folder / "environment/run.sh").chmod(0o755)
        archive = tmp_path / f"some.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(archive, "w") as zipped:
                for path in sorted(folder.rglob("*")):
                    zipped.write(path, path.relative_to(tmp_path / "in"))
        else:
            with tarfile.open(archive, "w:gz" if kind == "tar.gz" else "w") as tar:
                tar.add(folder, "t")
        (result,) = bring(archive, tmp_path / "ours")
        assert (result.id, result.refused) == ("t", "")
        assert (tmp_path / "ours/t/environment/run.sh").stat().st_mode & 0o100
        bring(folder, tmp_path / "direct")
        ours, direct = read_task(tmp_path / "ours/t"), read_task(tmp_path / "direct/t")
        assert replace(ours, environment=direct.environment) == direct

    def test_a_task_at_an_archives_top_is_named_after_it(self, tmp_path: Path) -> None:
        folder = harbor(tmp_path / "in")
        with tarfile.open(tmp_path / "wanted.tar.gz", "w:gz") as tar:
            for path in folder.iterdir():
                tar.add(path, path.name)
        (result,) = bring(tmp_path / "wanted.tar.gz", tmp_path / "ours")
        assert result.id == "wanted"

    def test_a_source_without_tasks_is_the_users_mistake(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "text").write_text("x")
        for source, message in (
            ("empty", "no tasks in"),
            ("text", "neither a folder nor a .tar"),
            ("nowhere", "neither a folder nor an archive"),
        ):
            with pytest.raises(UserError, match=message):
                bring(tmp_path / source, tmp_path / "ours")
