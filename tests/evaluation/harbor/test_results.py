"""Harbor's result files become trials; its exceptions decide what counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.domain.plain import plain
from runner.evaluation.harbor.outcomes import COUNTS, INFRA
from runner.evaluation.harbor.results import commits, read_episodes, read_trials


def write(job: Path, trial: str, **keys: Any) -> Path:
    """A trial's folder as Harbor leaves it, reduced to what is read."""
    folder = job / trial
    (folder / "agent").mkdir(parents=True)
    row = {"task_name": trial.split("__")[0], "trial_name": trial, "started_at": "2026-01-01T00:00:00Z", **keys}
    (folder / "result.json").write_text(json.dumps(row))
    return folder


def rewarded(value: float) -> dict[str, Any]:
    return {"rewards": {"reward": value}}


def raised(name: str, message: str = "") -> dict[str, Any]:
    return {"exception_type": name, "exception_message": message, "exception_traceback": "", "occurred_at": ""}


def only(job: Path) -> Any:
    (trial,) = read_trials(job)
    return trial


@pytest.mark.parametrize(("reward", "outcome"), [(1.0, "pass"), (0.0, "fail"), (0.99, "fail"), (1, "pass")])
def test_the_verifiers_reward_decides(tmp_path: Path, reward: float, outcome: str) -> None:
    timing = {"started_at": "2026-01-01T00:00:00.000000Z", "finished_at": "2026-01-01T00:01:02.500000Z"}
    write(tmp_path / "harbor", "a__1", verifier_result=rewarded(reward), agent_execution=timing)
    assert plain(only(tmp_path / "harbor")) == {
        "task": "a",
        "attempt": 0,
        "outcome": outcome,
        "reward": float(reward),
        "error": "",
        "seconds": 62.5,
        "turns": None,
        "usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0},
        "job": "harbor/a__1/result.json",
    }


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_after_the_agents_own_doing_the_verifiers_word_counts(tmp_path: Path, name: str, reward: float) -> None:
    write(tmp_path, "a__1", verifier_result=rewarded(reward), exception_info=raised(name, "it  took\nlong"))
    trial = only(tmp_path)
    assert trial.outcome is (Outcome.PASS if reward else Outcome.FAIL)
    assert trial.reward == reward
    assert trial.error == f"{name} ({COUNTS[name]}): it took long"


@pytest.mark.parametrize("name", INFRA)
def test_trouble_of_environments_verifiers_and_providers_is_infra_whatever_the_reward(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, "a__1", verifier_result=rewarded(1.0), exception_info=raised(name))
    trial = only(tmp_path)
    assert (trial.outcome, trial.reward) == (Outcome.INFRA, None)
    assert trial.error == f"{name} ({INFRA[name]})"


def test_an_unknown_exception_is_infra_with_its_name(tmp_path: Path) -> None:
    write(tmp_path, "a__1", verifier_result=rewarded(0.0), exception_info=raised("MoonError", "full"))
    assert only(tmp_path).outcome is Outcome.INFRA
    assert only(tmp_path).error.startswith("MoonError (not in the table")


@pytest.mark.parametrize("keys", [{}, {"verifier_result": None}, {"exception_info": raised("AgentTimeoutError")}])
def test_without_a_reward_there_is_no_score(tmp_path: Path, keys: dict[str, Any]) -> None:
    write(tmp_path, "a__1", **keys)
    assert only(tmp_path).outcome is Outcome.INFRA
    assert "there is no reward" in only(tmp_path).error


def test_an_exception_in_a_step_counts_as_one_of_the_trial(tmp_path: Path) -> None:
    steps = [{"exception_info": None}, {"exception_info": raised("VerifierTimeoutError")}]
    write(tmp_path, "a__1", verifier_result=rewarded(1.0), step_results=steps)
    assert only(tmp_path).outcome is Outcome.INFRA


def test_attempts_are_numbered_as_they_began(tmp_path: Path) -> None:
    for name, began, reward in [("a__z", "01", 1.0), ("a__y", "03", 0.0), ("b__x", "02", 1.0), ("a__w", "02", 0.0)]:
        write(tmp_path, name, started_at=f"2026-01-01T00:00:{began}Z", verifier_result=rewarded(reward))
    rows = [(trial.task, trial.attempt, trial.job.split("/")[1]) for trial in read_trials(tmp_path)]
    assert rows == [("a", 0, "a__z"), ("a", 1, "a__w"), ("a", 2, "a__y"), ("b", 0, "b__x")]


def test_what_is_not_whole_is_not_finished(tmp_path: Path) -> None:
    write(tmp_path, "a__1", verifier_result=rewarded(1.0))
    torn = write(tmp_path, "a__2") / "result.json"
    torn.write_text(torn.read_text()[:20])
    (tmp_path / "a__3").mkdir()
    (tmp_path / "result.json").write_text('{"n_total_trials": 3}')
    assert len(read_trials(tmp_path)) == 1


def test_turns_come_from_our_agent_and_from_terminus(tmp_path: Path) -> None:
    write(tmp_path, "a__1", agent_result={"metadata": {"turns": 3}})
    write(tmp_path, "b__1", agent_result={"metadata": {"n_episodes": 5}})
    write(tmp_path, "c__1", agent_result={"metadata": None})
    assert [trial.turns for trial in read_trials(tmp_path)] == [3, 5, None]


def test_episodes_get_the_verifiers_outcome(tmp_path: Path) -> None:
    job = tmp_path / "harbor"
    turn = Turn(reply="<action>done</action>")
    played = Episode(task_id="a__1__agent", sample=0, outcome=Outcome.INFRA, end=EndReason.DONE, turns=(turn,))
    folder = write(job, "a__1", verifier_result=rewarded(1.0))
    (folder / "agent" / "endless-episode.json").write_text(json.dumps(plain(played)))
    (folder / "verifier").mkdir()
    (folder / "verifier" / "test-stdout.txt").write_text("3 of 3 tests passed\n")
    write(job, "b__1", exception_info=raised("EnvironmentStartTimeoutError", "no daemon"))
    graded, lost = read_episodes(read_trials(job), tmp_path)
    assert (graded.id, graded.outcome, graded.end, graded.turns) == ("a/0", Outcome.PASS, EndReason.DONE, (turn,))
    assert graded.verdict == "3 of 3 tests passed\n"
    assert (lost.id, lost.outcome, lost.end, lost.turns) == ("b/0", Outcome.INFRA, EndReason.INFRA, ())
    assert "no daemon" in lost.verdict


def test_the_commits_of_a_jobs_tasks_are_known_from_its_trials(tmp_path: Path) -> None:
    for number, commit in enumerate(["abc", "abc", None]):
        folder = tmp_path / f"a__{number}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"task": {"path": "x", "git_commit_id": commit}}))
    assert commits(tmp_path) == {"abc"}
