"""Which tasks a benchmark has, and what tells them from others."""

import shutil
from pathlib import Path

import pytest

from runner.evaluation.harbor.tasks import count_tasks, tasks_identity
from runner.schema_evaluation import TerminalBench


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a1", "a2", "b1"):
        (tmp_path / "tasks" / name / "tests").mkdir(parents=True)
        (tmp_path / "tasks" / name / "task.toml").write_text(f"# {name}")
        (tmp_path / "tasks" / name / "tests" / "test.sh").write_text("exit 0")
    (tmp_path / "tasks" / "notes").mkdir()
    return tmp_path / "tasks"


def test_a_folder_is_its_content_wherever_it_is(folder: Path, tmp_path: Path) -> None:
    known = tasks_identity(TerminalBench(path=str(folder)))
    assert list(known) == ["a1", "a2", "b1"]
    (tmp_path / "linked").mkdir()
    for task in folder.iterdir():
        (tmp_path / "linked" / task.name).symlink_to(task)
    shutil.copytree(folder, tmp_path / "copied")
    for other in ("linked", "copied"):
        assert tasks_identity(TerminalBench(path=str(tmp_path / other))) == known
    (folder / "a2" / "tests" / "test.sh").write_text("exit 1")
    changed = tasks_identity(TerminalBench(path=str(folder)))
    assert {name for name in known if known[name] != changed[name]} == {"a2"}
    assert tasks_identity(TerminalBench(path=str(folder), tasks=["b*"])) == {"b1": known["b1"]}


def test_a_dataset_is_its_name_version_and_commit() -> None:
    known = tasks_identity(TerminalBench())
    for other in (TerminalBench(version="3.0"), TerminalBench(commit="abc"), TerminalBench(tasks=["a"])):
        assert tasks_identity(other) != known


def test_tasks_are_counted_where_they_can_be(folder: Path) -> None:
    assert count_tasks(TerminalBench()) == 89
    assert count_tasks(TerminalBench(tasks=["chess*"])) is None
    assert count_tasks(TerminalBench(version="9")) is None
    assert count_tasks(TerminalBench(path=str(folder), tasks=["a*"])) == 2
    assert count_tasks(TerminalBench(path=str(folder / "nowhere"))) == 0
