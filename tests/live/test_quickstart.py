"""The quickstart, as a newcomer meets it."""

import html
import time
from collections.abc import Callable

import pytest
from support.endless import Results, Workplace

from runner.store.tasks import iter_tasks

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


Finished = Callable[[str], tuple[Workplace, str]]


def test_it_ends_with_tables_and_at_least_eight_tasks_and_a_second_time_does_nothing(
    quickstart: Finished, backend: str
) -> None:
    workplace, printed = quickstart(backend)
    results = workplace.results()
    assert sum(kept for kept, _, _ in results.tasks().values()) == 8
    reasons = [reason for reason, _, _ in results.draws().values()]
    assert {"kept", "leak", "near_duplicate", "initial_test_failed"} == set(reasons)
    for word in ("attrition", "near_duplicate", "pass@4", "runner.cli show episode", "runner.cli ui"):
        assert word in printed
    (page,) = (workplace.store / "analyze").glob("*/report.html")
    assert f"what it means: {page}" in printed
    assert_nothing_hidden(page.read_text(), results)
    began = time.monotonic()
    again = workplace.run("quickstart")
    assert time.monotonic() - began < 5
    assert again.count("already done") == 4


def assert_nothing_hidden(page: str, results: Results) -> None:
    """The report may be published: no line of a truth or of a test, unless the agent was told it."""
    shown, tasks = html.unescape(page), list(iter_tasks(results.generate / "tasks"))
    assert len(tasks) == 9
    assert "Failed episodes, shortened" in page
    for task in tasks:
        hidden = f"{task.truth}\n{task.final_test}\n{task.initial_test}"
        lines = {line.strip() for line in hidden.splitlines() if len(line.strip()) >= 14}
        assert not [line for line in lines if line not in task.instruction and line in shown]


@pytest.mark.quick
def test_the_cast_of_the_quickstart_is_whole(quickstart: Finished) -> None:
    results = quickstart("local")[0].results()
    draws, episodes = results.draws(), results.episodes()
    kept_rounds = [rounds for reason, _, rounds in draws.values() if reason == "kept"]
    assert sum(rounds["environment"] == 2 for rounds in kept_rounds) >= 1, "a build repaired in round 2"
    assert sum(rounds["final"] == 2 for rounds in kept_rounds) >= 1, "a final test that was repaired"
    assert sum(rounds["describe"] == 2 for rounds in kept_rounds) >= 1, "a reply that did not parse"
    assert any(reason == "initial_test_failed" and rounds["environment"] == 3 for reason, _, rounds in draws.values())
    assert any(passes == 0 for _, passes, _ in results.tasks().values()), "an unsolvable task"
    ends = {(outcome, end) for outcome, end, _ in episodes.values()}
    assert {("fail", "done"), ("fail", "turn_limit"), ("fail", "invalid_output"), ("pass", "done")} <= ends
    assert any(len(turns) == 16 and len({c for c, _ in turns[3:]}) == 1 for _, _, turns in episodes.values()), "a loop"


def test_changing_n_runs_filter_and_dataset_again_and_nothing_else(quickstart: Finished) -> None:
    place, _ = quickstart("local")
    plan = place.endless("plan", "quickstart", *place.sandbox, "filter.n=3").stdout
    assert [line.split()[1] for line in plan.splitlines()[2:5]] == ["done", "to", "to"]
    server = place.endless("plan", "quickstart", *place.sandbox, "tracking.uri=http://127.0.0.1:9")
    assert [line.split()[1] for line in server.stdout.splitlines()[2:5]] == ["done", "done", "done"]


@pytest.mark.apptainer
def test_every_backend_keeps_the_same_tasks_with_the_same_verdicts(quickstart: Finished) -> None:
    local, *others = [quickstart(name)[0].results() for name in ("local", "docker", "apptainer")]
    for other in others:
        assert other.draws() == local.draws()
        assert other.tasks() == local.tasks()
        assert other.split() == local.split()
        assert _verdicts(other) == _verdicts(local)
    assert sum(kept for kept, _, _ in local.tasks().values()) == 8


def _verdicts(results: Results) -> dict[str, tuple[str, str]]:
    """Episode -> its outcome and its end."""
    return {name: (outcome, end) for name, (outcome, end, _) in results.episodes().items()}
