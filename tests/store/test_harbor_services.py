"""Health checks and kept ports in task.toml: written, read back, and understood in others' folders."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.domain.errors import TaskFormatError
from runner.domain.plain import fingerprint, plain
from runner.domain.task import Environment, HealthCheck, Task
from runner.store.imports.importer import import_tasks
from runner.store.tasks import read_task, write_task

seconds = st.floats(min_value=0, max_value=1e6)
checks = st.builds(
    HealthCheck,
    command=st.text(min_size=1).filter(str.strip),
    interval_seconds=seconds,
    timeout_seconds=seconds,
    start_period_seconds=seconds,
    start_interval_seconds=seconds,
    retries=st.integers(min_value=1, max_value=10**6),
)
ports = st.lists(st.integers(min_value=1, max_value=65535), max_size=4).map(tuple)
TASK = Task(id="t", instruction="x", environment=Environment(setup="true"), final_test="def test_a(): assert 0\n")
OTHERS = {
    "instruction.md": "Fix it.",
    "environment/Dockerfile": "FROM ubuntu:22.04\n",
    "tests/test_outputs.py": "def test_a(): assert 0\n",
}


def others(folder: Path, toml: str, **files: str) -> Path:
    """A Harbor task that others made."""
    for name, text in ({"task.toml": toml} | OTHERS | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@given(health=st.none() | checks, keep_ports=ports)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, health: HealthCheck | None, keep_ports: tuple[int, ...]
) -> None:
    folder = tmp_path_factory.mktemp("tasks") / "t"
    task = replace(TASK, environment=replace(TASK.environment, health=health), keep_ports=keep_ports)
    write_task(folder, task)
    assert read_task(folder) == task


def test_task_toml_says_it_in_harbors_words(tmp_path: Path) -> None:
    health = HealthCheck(command="curl -sf http://127.0.0.1:8080", retries=7)
    write_task(tmp_path / "t", replace(TASK, environment=Environment(setup="true", health=health), keep_ports=(8080,)))
    table = tomllib.loads((tmp_path / "t" / "task.toml").read_text())
    check = {"interval_sec": 0.5, "timeout_sec": 10.0, "start_period_sec": 0.0, "start_interval_sec": 0.5}
    assert table["environment"]["healthcheck"] == {"command": health.command, **check, "retries": 7}
    assert table["metadata"]["endless"]["keep_ports"] == [8080]


def test_a_task_without_services_is_written_as_before(tmp_path: Path) -> None:
    write_task(tmp_path / "t", TASK)
    text = (tmp_path / "t" / "task.toml").read_text()
    assert "healthcheck" not in text
    assert "keep_ports" not in text
    assert plain(TASK.environment) == {"setup": "true", "start": "", "context": None}
    assert fingerprint(TASK.environment) == "35609bbc267fb5ca"


def test_a_health_check_of_others_is_read_with_harbors_defaults(tmp_path: Path) -> None:
    task = read_task(others(tmp_path, '[environment.healthcheck]\ncommand = "true"\ntimeout_sec = 3\n'))
    assert task.environment.health == HealthCheck(
        command="true",
        interval_seconds=5.0,
        timeout_seconds=3.0,
        start_period_seconds=0.0,
        start_interval_seconds=5.0,
        retries=3,
    )


def test_import_keeps_a_health_check_and_says_what_is_different(tmp_path: Path) -> None:
    others(tmp_path / "from" / "a", '[environment.healthcheck]\ncommand = "true"\n')
    (imported,) = import_tasks(tmp_path / "from", tmp_path / "to")
    assert any("health check" in note for note in imported.notes)
    health = read_task(tmp_path / "to" / "a").environment.health
    assert health is not None
    assert (health.command, health.retries) == ("true", 3)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("[environment]\nhealthcheck = true", "must have a command"),
        ("[environment.healthcheck]\nretries = 3", "must have a command"),
        ("[environment.healthcheck]\ncommand = 'true'\nretries = 0", "retries"),
        ("[environment.healthcheck]\ncommand = 'true'\ninterval_sec = -1", "interval_sec"),
        ("[environment.healthcheck]\ncommand = 'true'\ntimeout_sec = 'long'", "timeout_sec"),
        ("[metadata.endless]\nkeep_ports = 80", "keep_ports"),
        ("[metadata.endless]\nkeep_ports = [true]", "keep_ports"),
        ("[metadata.endless]\nkeep_ports = [65536]", "keep_ports"),
        ("[metadata.endless]\nkeep_ports = ['80']", "keep_ports"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, lines: str, complaint: str) -> None:
    with pytest.raises(TaskFormatError, match=complaint):
        read_task(others(tmp_path, lines))


def test_a_script_cannot_be_graded_beside_kept_services(tmp_path: Path) -> None:
    folder = others(tmp_path, "[metadata.endless]\nkeep_ports = [80]", **{"tests/test.sh": "echo 1"})
    (folder / "tests/test_outputs.py").unlink()
    with pytest.raises(TaskFormatError, match="needs a pytest file"):
        read_task(folder)
