"""The quickstart, as a newcomer meets it."""

import time
from pathlib import Path

import pytest
from support.endless import Workplace

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def test_it_ends_with_tables_and_at_least_eight_tasks_and_a_second_time_does_nothing(workplace: Workplace) -> None:
    printed = workplace.run("quickstart")
    results = workplace.results()
    assert sum(kept for kept, _, _ in results.tasks().values()) == 8
    reasons = [reason for reason, _, _ in results.draws().values()]
    assert {"kept", "leak", "near_duplicate", "initial_test_failed"} == set(reasons)
    for word in ("attrition", "near_duplicate", "pass@4", "runner.cli show episode", "runner.cli ui"):
        assert word in printed
    began = time.monotonic()
    again = workplace.run("quickstart")
    assert time.monotonic() - began < 5
    assert again.count("already done") == 3


@pytest.mark.quick
def test_the_cast_of_the_quickstart_is_whole(local_workplace: Workplace) -> None:
    local_workplace.run("quickstart")
    draws, episodes = local_workplace.results().draws(), local_workplace.results().episodes()
    kept_rounds = [rounds for reason, _, rounds in draws.values() if reason == "kept"]
    assert sum(rounds["environment"] == 2 for rounds in kept_rounds) >= 1, "a build repaired in round 2"
    assert sum(rounds["final"] == 2 for rounds in kept_rounds) >= 1, "a final test that was repaired"
    assert sum(rounds["describe"] == 2 for rounds in kept_rounds) >= 1, "a reply that did not parse"
    assert any(reason == "initial_test_failed" and rounds["environment"] == 3 for reason, _, rounds in draws.values())
    assert any(passes == 0 for _, passes, _ in local_workplace.results().tasks().values()), "an unsolvable task"
    ends = {(outcome, end) for outcome, end, _ in episodes.values()}
    assert {("fail", "done"), ("fail", "turn_limit"), ("fail", "invalid_output"), ("pass", "done")} <= ends
    assert any(len(turns) == 16 and len({c for c, _ in turns[3:]}) == 1 for _, _, turns in episodes.values()), "a loop"


def test_changing_n_runs_filter_and_dataset_again_and_nothing_else(local_workplace: Workplace) -> None:
    local_workplace.run("quickstart")
    plan = local_workplace.endless("plan", "quickstart", *local_workplace.sandbox, "filter.n=3").stdout
    assert [line.split()[1] for line in plan.splitlines()[2:5]] == ["done", "to", "to"]
    server = local_workplace.endless("plan", "quickstart", *local_workplace.sandbox, "tracking.uri=http://127.0.0.1:9")
    assert [line.split()[1] for line in server.stdout.splitlines()[2:5]] == ["done", "done", "done"]


def test_docker_and_local_keep_the_same_tasks(
    tmp_path: Path, docker_words: tuple[str, ...], local_words: tuple[str, ...]
) -> None:
    docker, local = Workplace(tmp_path / "docker", docker_words), Workplace(tmp_path / "local", local_words)
    for place in (docker, local):
        place.run("quickstart", "tracking=off")
    assert docker.results().draws() == local.results().draws()
    assert docker.results().tasks() == local.results().tasks()
    assert docker.results().split() == local.results().split()


@pytest.mark.apptainer
def test_apptainer_and_local_keep_the_same_tasks(apptainer_workplace: Workplace, local_workplace: Workplace) -> None:
    for place in (apptainer_workplace, local_workplace):
        place.run("quickstart", "tracking=off")
    assert apptainer_workplace.results().draws() == local_workplace.results().draws()
    assert apptainer_workplace.results().tasks() == local_workplace.results().tasks()
    assert apptainer_workplace.results().split() == local_workplace.results().split()
