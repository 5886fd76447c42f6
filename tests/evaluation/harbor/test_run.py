"""A job from its beginning to its rows, with a program in Harbor's place that leaves the files a job leaves."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account
from support.stand_in import rewarded, stand_in, trial

from runner.domain.errors import EngineError, Incomplete, RecipeError
from runner.evaluation.harbor import HarborRun, run_harbor
from runner.schema import Model, Provider
from runner.schema_evaluation import Harness, TerminalBench
from runner.store.jsonl import read_lines

MODEL = Model(provider=Provider.openai, name="m", base_url="http://127.0.0.1:1/v1")


def raised(name: str) -> dict[str, Any]:
    return {"exception_info": {"exception_type": name, "exception_message": "no key"}}


def job(folder: Path, *commands: str, **bench: Any) -> HarborRun:
    """A job for which these commands stand in."""
    made = TerminalBench(python=str(stand_in(folder, *commands)), environment="modal", **bench)
    place = folder / "job"
    return HarborRun(bench=made, harness=Harness(), model=MODEL, folder=place, account=account(place))


def test_a_job_ends_in_rows_and_episodes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    one = job(tmp_path, trial("a__1", **rewarded(1.0)), "sleep 1", trial("b__1", **raised("HealthcheckError")))
    result = run_harbor(one, on_trials=lambda trials, missing: seen.append((len(trials), missing)))
    assert seen == [(1, 1), (2, 0)]
    assert result.files == (one.folder / "trials.jsonl", one.folder / "episodes.jsonl")
    rows = [(row["task"], row["outcome"], row["job"]) for row in read_lines(one.folder / "trials.jsonl")]
    assert rows == [("a", "pass", "harbor/a__1/result.json"), ("b", "infra", "harbor/b__1/result.json")]
    assert [row["outcome"] for row in read_lines(one.folder / "episodes.jsonl")] == ["pass", "infra"]
    assert result.infra == 1


def test_what_has_a_score_is_not_done_again(tmp_path: Path) -> None:
    run_harbor(job(tmp_path, trial("a__1", **rewarded(0.0)), trial("b__1", **raised("HealthcheckError"))))
    result = run_harbor(job(tmp_path, "[ ! -e harbor/b__1 ]", trial("b__2", **rewarded(1.0))))
    assert [(one.task, one.reward) for one in result.trials] == [("a", 0.0), ("b", 1.0)]
    assert (
        (tmp_path / "job" / "words").read_text().split("\n")[1].endswith(f"job resume --job-path {tmp_path}/job/harbor")
    )


def test_a_harbor_that_fails_is_infrastructure_trouble_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"(?s)exit code 3;.*the registry is away"):
        run_harbor(job(tmp_path, "echo the registry is away", "exit 3"))


def test_missing_trials_are_not_taken_for_all(tmp_path: Path) -> None:
    with pytest.raises(Incomplete, match="finished 1 of 2 trials"):
        run_harbor(job(tmp_path, trial("a__1", **rewarded(1.0))))
    assert not (tmp_path / "job" / "trials.jsonl").exists()


def test_a_setting_that_fails_every_trial_ends_the_job_at_the_first(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(RecipeError, match=r"cannot work: MissingRequirement .*no key"):
        run_harbor(job(tmp_path, trial("a__1", **raised("MissingRequirement")), "exec sleep 60"))
    assert time.monotonic() - began < 30


def test_a_job_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Incomplete, match="was stopped"):
        run_harbor(job(tmp_path, "exec sleep 60"), stop=stop)


def test_tasks_at_another_commit_are_refused(tmp_path: Path) -> None:
    config = json.dumps({"task": {"git_commit_id": "fedcba98"}})
    begun = f"mkdir harbor/a__1; echo '{config}' >harbor/a__1/config.json"
    with pytest.raises(RecipeError, match=r"commit is abc, but terminal-bench@2\.0 is at fedcba98"):
        run_harbor(job(tmp_path, begun, "exec sleep 60", commit="abc"))
    run_harbor(job(tmp_path / "other", trial("a__1", **rewarded(1.0)), trial("b__1", **rewarded(1.0)), commit="fedc"))
