"""Task folders: what is written is read back, and others' Harbor folders are understood."""

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.domain.errors import StorageError, TaskFormatError, UserError
from runner.domain.task import Environment, Limits, Task
from runner.store.tasks import find_tasks, is_task, iter_tasks, read_task, write_task

FINAL = "def test_done():\n    assert False\n"

texts = st.one_of(st.text(), st.text(alphabet=st.sampled_from("a\r\n\t \"'\\\0é\N{ROCKET}#[]=")))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
seconds = st.floats(min_value=0.001, max_value=1e6)
tasks = st.builds(
    Task,
    id=texts,
    instruction=texts,
    environment=st.builds(Environment, setup=texts, start=texts),
    final_test=texts,
    initial_test=texts,
    truth=texts,
    solution=texts,
    labels=st.dictionaries(texts, texts, max_size=3),
    limits=st.builds(Limits, build_seconds=seconds, verifier_seconds=seconds, agent_seconds=seconds),
    draw=st.none() | st.integers(min_value=0, max_value=10**9),
    metadata=st.dictionaries(texts, json_values, max_size=3),
    test_files=st.dictionaries(st.sampled_from(["data.csv", "more/x.bin", "a/b"]), st.binary(max_size=40), max_size=3),
)


def simple(task_id: str = "task-a", **changes: object) -> Task:
    base = Task(id=task_id, instruction="Do it.\n", environment=Environment(setup="true\n"), final_test=FINAL)
    return replace(base, **changes)  # type: ignore[arg-type]


def imported(folder: Path, **files: str) -> Path:
    """A folder as others write them: schema 0.1, the truth and the initial test inside the build context."""
    contents = {
        "task.toml": 'version = "0.1"\n[metadata]\ncategory = "programming"\n[verifier]\ntimeout_sec = 300.0\n',
        "instruction.md": "Fix it.",
        "environment/Dockerfile": "FROM ubuntu:22.04\nCOPY data.txt /data.txt\n",
        "environment/data.txt": "data",
        "environment/task.json": json.dumps({"truth": "the answer is 42"}),
        "environment/test_initial_state.py": "def test_there(): ...\n",
        "tests/test.sh": "curl example.com | sh\n",
        "tests/test_final_state.py": FINAL,
    } | files
    for name, text in contents.items():
        if text:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


@given(task=tasks)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_any_task_is_read_back_as_it_was_written(tmp_path: Path, task: Task) -> None:
    write_task(tmp_path / "t", task)
    assert read_task(tmp_path / "t") == task


def test_lone_surrogates_from_a_models_json_survive(tmp_path: Path) -> None:
    task = simple(instruction="bad \ud800 text", labels={"category": "\udfff"})
    write_task(tmp_path / "t", task)
    assert read_task(tmp_path / "t") == task


def test_the_folder_is_a_harbor_task_of_schema_1_4(tmp_path: Path) -> None:
    task = simple(labels={"category": "log analysis", "scenario": "auditor"}, solution="touch done\n", truth="secret")
    write_task(tmp_path / "t", task)
    table = tomllib.loads((tmp_path / "t/task.toml").read_text())
    assert table["schema_version"] == "1.4"
    assert table["verifier"]["timeout_sec"] == 60.0
    assert table["agent"] == {"timeout_sec": 300.0, "user": "user"}
    assert table["environment"]["build_timeout_sec"] == 180.0
    assert table["metadata"]["category"] == "log analysis"
    assert table["metadata"]["tags"] == ["log analysis", "auditor"]
    assert os.access(tmp_path / "t/solution/solve.sh", os.X_OK)
    assert not list((tmp_path / "t/environment").glob("*truth*"))


def test_writing_again_replaces_the_whole_folder(tmp_path: Path) -> None:
    write_task(tmp_path / "t", simple(solution="echo 1"))
    write_task(tmp_path / "t", simple(metadata={"pass_rate": 0.5}), extra={"environment/Dockerfile": "FROM x\n"})
    assert not (tmp_path / "t/solution").exists()
    assert read_task(tmp_path / "t").metadata == {"pass_rate": 0.5}
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_failed_write_leaves_the_earlier_task_and_no_litter(tmp_path: Path) -> None:
    write_task(tmp_path / "t", simple())
    with pytest.raises(StorageError, match="cannot write"):
        write_task(tmp_path / "t", simple(), extra={"task.toml/inside": "x"})
    assert read_task(tmp_path / "t") == simple()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_a_storage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="check the permissions"):
            write_task(tmp_path / "t", simple())
    finally:
        tmp_path.chmod(0o755)


def test_tasks_are_found_in_order_below_shards_and_hidden_folders_are_not(tmp_path: Path) -> None:
    for name in ("01/b", "00/c", "00/a", ".00.partial/x"):
        write_task(tmp_path / name, simple(Path(name).name))
    assert [task.id for task in iter_tasks(tmp_path)] == ["a", "c", "b"]
    assert list(find_tasks(tmp_path / "00/a")) == [tmp_path / "00/a"]


def test_tasks_are_read_lazily(tmp_path: Path) -> None:
    write_task(tmp_path / "a", simple("a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/task.toml").write_text("not toml")
    stream = iter_tasks(tmp_path)
    assert next(stream).id == "a"
    with pytest.raises(TaskFormatError, match=r"b is not a task: task\.toml is not valid TOML"):
        next(stream)


def test_a_path_that_is_no_folder_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere is not a folder"):
        list(iter_tasks(tmp_path / "nowhere"))


def test_a_folder_of_others_is_read_with_its_truth_and_initial_test(tmp_path: Path) -> None:
    folder = imported(tmp_path / "theirs")
    task = read_task(folder)
    assert task.id == "theirs"
    assert task.environment == Environment(context=folder / "environment")
    assert task.truth == "the answer is 42"
    assert task.initial_test == "def test_there(): ...\n"
    assert task.limits == Limits(verifier_seconds=300.0)
    assert task.labels == {"category": "programming"}
    assert task.draw is None
    assert task.metadata == {"category": "programming"}


def test_an_imported_task_that_we_store_has_nothing_hidden_in_its_build_context(tmp_path: Path) -> None:
    original = read_task(imported(tmp_path / "theirs"))
    write_task(tmp_path / "ours", original)
    stored = read_task(tmp_path / "ours")
    assert sorted(path.name for path in (tmp_path / "ours/environment").iterdir()) == ["Dockerfile", "data.txt"]
    assert stored.environment.context == tmp_path / "ours/environment"
    assert replace(stored, environment=original.environment) == original


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"task.toml": ""}, "task.toml is missing"),
        ({"instruction.md": ""}, "instruction.md is missing"),
        ({"environment/Dockerfile": ""}, "environment/Dockerfile is missing"),
        (
            {"tests/test_final_state.py": "", "tests/test.sh": ""},
            "tests/test_final_state.py is missing .tests/ holds no pytest file and no test.sh",
        ),
        ({"environment/docker-compose.yaml": "services: {}"}, "several containers"),
        ({"task.toml": '[verifier]\nenvironment_mode = "separate"'}, "a container of its own"),
        ({"task.toml": '[[verifier.collect]]\ncommand = "x"'}, "hooks to run before grading"),
        ({"task.toml": '[environment]\nos = "windows"'}, "only linux"),
        ({"environment/task.json": "{"}, "environment/task.json is not valid JSON"),
        ({"task.toml": 'schema_version = "2.0"'}, "schema_version '2.0'; this reads 0.1 to 1.4"),
        ({"task.toml": "agent = 3"}, r"\[agent\] in task.toml is not a table"),
        ({"task.toml": "[verifier]\ntimeout_sec = 'long'"}, r"\[verifier\] timeout_sec .* positive number"),
        ({"task.toml": '[[steps]]\nname = "one"'}, "multi-step"),
        (
            {"environment/Dockerfile": "", "task.toml": '[environment]\ndocker_image = "x"'},
            "prebuilt docker_image",
        ),
    ],
)
def test_a_folder_that_is_no_task_says_what_is_missing(tmp_path: Path, files: dict[str, str], message: str) -> None:
    folder = imported(tmp_path / "theirs", **files)
    assert is_task(folder)
    with pytest.raises(TaskFormatError, match=rf"theirs is not a task: .*{message}"):
        read_task(folder)


def test_other_names_for_the_verifier_are_known(tmp_path: Path) -> None:
    one = imported(tmp_path / "one", **{"tests/test_final_state.py": "", "tests/test_outputs.py": "bench"})
    other = imported(tmp_path / "other", **{"tests/test_final_state.py": "", "tests/test_state.py": "only"})
    assert read_task(one).final_test == "bench"
    assert read_task(other).final_test == "only"


def test_a_task_with_a_script_instead_of_a_pytest_file_keeps_it_and_the_data_beside_it(tmp_path: Path) -> None:
    files = {"tests/test_final_state.py": "", "tests/test.sh": "echo 1\n", "tests/data/want.txt": "42"}
    original = read_task(imported(tmp_path / "theirs", **files))
    assert (original.final_test, original.verifier_script) == ("", "echo 1\n")
    assert original.test_files == {"data/want.txt": b"42"}
    write_task(tmp_path / "ours", original)
    stored = read_task(tmp_path / "ours")
    assert replace(stored, environment=original.environment) == original
    assert os.access(tmp_path / "ours/tests/test.sh", os.X_OK)


def test_several_pytest_files_are_the_scripts_to_run(tmp_path: Path) -> None:
    files = {"tests/test_final_state.py": "", "tests/test_a.py": "a", "tests/test_b.py": "b"}
    task = read_task(imported(tmp_path / "t", **files))
    assert task.verifier_script == "curl example.com | sh\n"
    assert task.test_files == {"test_a.py": b"a", "test_b.py": b"b"}


def test_files_beside_a_pytest_file_are_kept_and_its_test_sh_is_not(tmp_path: Path) -> None:
    task = read_task(imported(tmp_path / "t", **{"tests/want.json": "{}", "tests/__pycache__/x.pyc": "x"}))
    assert task.test_files == {"want.json": b"{}"}
    assert task.verifier_script == ""


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    folder = imported(tmp_path / "t")
    (folder / "tests/data").symlink_to(tmp_path / "secret")
    with pytest.raises(TaskFormatError, match="tests/data leads out of the task's folder"):
        read_task(folder)


def test_labels_and_tags_beside_the_truth_are_kept(tmp_path: Path) -> None:
    about = json.dumps({"truth": "42", "complexity": "hard", "category": "logs", "tags": ["awk"], "secret": "no"})
    task = read_task(imported(tmp_path / "t", **{"environment/task.json": about}))
    assert task.labels == {"category": "programming", "complexity": "hard"}
    assert task.metadata == {"category": "programming", "tags": ["awk"]}
    write_task(tmp_path / "ours", task)
    table = tomllib.loads((tmp_path / "ours/task.toml").read_text())
    assert table["metadata"]["tags"] == ["programming", "hard", "awk"]


def test_dates_in_others_metadata_become_text(tmp_path: Path) -> None:
    folder = imported(tmp_path / "t", **{"task.toml": "[metadata]\nmade = 2026-01-02\nat = [2026-01-02T03:04:05Z]\n"})
    metadata = read_task(folder).metadata
    assert metadata == {"made": "2026-01-02", "at": ["2026-01-02T03:04:05+00:00"]}
    assert json.dumps(metadata)
